//! Suites and proofs on the Postgres engine, each on a private PostgreSQL server.

mod agent_suites;
mod contract;
mod engine_suites;
mod proofs;
mod row_level_security;
