//! HTTP interface of garth.
