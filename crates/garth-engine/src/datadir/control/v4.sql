-- Format 4 of control.db: requests that created or deleted an account, so that a repeat changes nothing.
CREATE TABLE account_request (
    number  INTEGER PRIMARY KEY,        -- in the order of the requests
    caller  TEXT NOT NULL,              -- id of the key that made the request
    key     TEXT NOT NULL,              -- its idempotency key
    request BLOB NOT NULL CHECK (length(request) = 32), -- hash of the request
    at      INTEGER NOT NULL,
    changed INTEGER NOT NULL CHECK (changed IN (0, 1)), -- 1: the request created or deleted the account
    account TEXT NOT NULL,              -- its id; not a reference, because the account may be gone
    folder  TEXT,                       -- its folder; NULL: there was no such account
    created INTEGER,                    -- time of its creation
    UNIQUE (caller, key)
) STRICT;

CREATE INDEX account_request_at ON account_request (at);
