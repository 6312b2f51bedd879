-- Format 1 of control.db. Times are nanoseconds since 1970.
CREATE TABLE secret_hash (
    key BLOB NOT NULL CHECK (length(key) = 32) -- one row: the BLAKE3 key under which secrets are hashed
) STRICT;

CREATE TABLE account (
    id      TEXT NOT NULL PRIMARY KEY,
    folder  TEXT NOT NULL UNIQUE,       -- below accounts/: 32 random hexadecimal digits
    created INTEGER NOT NULL,
    deleted INTEGER NOT NULL DEFAULT 0 CHECK (deleted IN (0, 1))
) STRICT, WITHOUT ROWID;

CREATE TABLE api_key (
    id      TEXT NOT NULL PRIMARY KEY,
    account TEXT NOT NULL REFERENCES account (id) ON DELETE CASCADE,
    label   TEXT NOT NULL,
    scopes  TEXT NOT NULL,              -- separated by blanks
    hash    BLOB NOT NULL CHECK (length(hash) = 32),
    created INTEGER NOT NULL,
    revoked INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX api_key_of_account ON api_key (account, created, id);
