-- Format 3 of control.db: bindings, expiry and rotation of keys, and keys of the data folder. The table has a new
-- name, so that a process that knows only format 2 fails and cannot ignore the limits of a key.
CREATE TABLE access_key (
    id        TEXT NOT NULL PRIMARY KEY,
    account   TEXT REFERENCES account (id) ON DELETE CASCADE, -- NULL: a key of the data folder
    label     TEXT NOT NULL,
    scopes    TEXT NOT NULL,              -- separated by blanks
    binding   TEXT,                       -- JSON; NULL: free
    hash      BLOB NOT NULL CHECK (length(hash) = 32),
    request   BLOB CHECK (length(request) = 32), -- hash of the request that derived the key; NULL: random
    maker     TEXT,                       -- id of the key that created it
    successor TEXT,                       -- id of the key that replaced it
    created   INTEGER NOT NULL,
    expires   INTEGER,
    revoked   INTEGER
) STRICT, WITHOUT ROWID;

INSERT INTO access_key (id, account, label, scopes, hash, created, revoked)
    SELECT id, account, label, scopes, hash, created, revoked FROM api_key;
DROP TABLE api_key;

CREATE INDEX access_key_of_account ON access_key (account, created, id);
-- So that a page of keys in use does not read past all revoked ones.
CREATE INDEX access_key_in_use ON access_key (account, created, id) WHERE revoked IS NULL;
