//! The command line as users run it: the real binary on real data folders.

mod it {
    mod admin;
    mod agent_tree;
    mod agents;
    mod audiences;
    mod batch;
    mod changes;
    mod config;
    mod data_folder;
    mod embedder;
    mod errors;
    mod eval;
    mod examples;
    mod finding;
    mod garth;
    mod kv;
    mod layout;
    mod mcp;
    mod media;
    mod operating;
    mod operator;
    mod outbox;
    mod overlay;
    mod past;
    mod postgres;
    mod preload;
    mod quota;
    mod reading;
    mod remember;
    mod repair;
    mod retention;
    mod rule;
    mod serve;
    mod serve_check;
    mod session;
    mod skill;
    mod status;
    mod stopping;
    mod sync;
    mod terminal;
    mod transfer;
    mod usage;
    mod watch;
    mod workspace;
    mod writing;
}
