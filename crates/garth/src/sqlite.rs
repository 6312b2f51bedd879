//! What every SQLite database of garth shares: how connections are opened, pooled, migrated, and how errors are told.

pub(crate) mod pool;
