//! Suites and proofs on the Postgres engine, each on a private PostgreSQL server.

mod contract;
mod proofs;
mod row_level_security;
