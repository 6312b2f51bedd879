-- The tables of format 1, in the schema `garth`. A row belongs to the account in its first column, and a
-- transaction sees the rows of the account that it set in `garth.account`, or of the server for account 0.
-- `seq`, `since`, `till` are sequence numbers. Times are nanoseconds since 1970.
--
-- Statements name the schema: behind a pooler there is no search path. An entry of an index has at most 2,704
-- bytes, so `dir` has at most 2,304. `long` is for longer ones, which are refused until then. Labels and owners are
-- keyed by a hash or a number.
CREATE SCHEMA garth;
CREATE FUNCTION garth.fork(since bigint, till bigint) RETURNS bigint
  LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN till <= since THEN 0 ELSE
    (till - 1) >> k << k END
  FROM (SELECT 63 - coalesce(nullif(position(B'1' IN ((greatest(since, 1) - 1) # (till - 1))::bit(64)), 0), 64) + 1 AS k) AS bits $$;
CREATE FUNCTION garth.me() RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE AS
  $$ SELECT nullif(current_setting('garth.account', true), '')::bigint $$;
-- The clock of the database: of accounts, keys and their expiry.
CREATE FUNCTION garth.now() RETURNS bigint LANGUAGE sql VOLATILE PARALLEL SAFE AS
  $$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint * 1000 $$;
-- Deletes at most about `most` rows of the account that the transaction has set. The head row goes first: without
-- it, no commit finds the account. It is not looked up by its place (`ctid`), as other rows are: a commit that is
-- waited for moves it, and a row that has moved would stay. Nobody changes the others once it is gone, because each
-- transaction that writes locks it. Row-level security hides the tables of the server. A row of a large table counts
-- as many. Returns true if rows may be left. Rows are found by the key of their table: another scan would read those
-- of other accounts, or all of this one.
CREATE FUNCTION garth.sweep(most bigint) RETURNS boolean LANGUAGE plpgsql
  SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE t record; gone bigint;
BEGIN
  -- For account 0 it would delete the keys of the server.
  IF coalesce(garth.me(), 0) <= 0 THEN RETURN false; END IF;
  DELETE FROM garth.head WHERE account = garth.me();
  FOR t IN SELECT c.relname AS n, CASE WHEN c.relname IN ('chunk', 'staged', 'log_more') THEN 100 ELSE 1 END AS weight
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attname = 'account'
      AND a.atttypid = 'bigint'::regtype
    WHERE c.relnamespace = 'garth'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
    ORDER BY c.relname
  LOOP
    EXECUTE format('DELETE FROM garth.%I WHERE account = $1 AND ctid = ANY (ARRAY(
      SELECT ctid FROM garth.%I WHERE account = $1 LIMIT $2))', t.n, t.n) USING garth.me(), greatest(most / t.weight, 1);
    GET DIAGNOSTICS gone = ROW_COUNT;
    most := most - gone * t.weight;
    IF most <= 0 THEN RETURN true; END IF;
  END LOOP;
  RETURN false;
END $$;

CREATE TABLE garth.format (one bigint PRIMARY KEY CHECK (one = 0), version int NOT NULL, secret bytea NOT NULL CHECK (octet_length(secret) = 32));
CREATE TABLE garth.account (
  account bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id text COLLATE "C" NOT NULL UNIQUE, folder text COLLATE "C" NOT NULL UNIQUE,
  created bigint NOT NULL, deleted boolean NOT NULL DEFAULT false, swept bigint NOT NULL DEFAULT 0);
CREATE INDEX account_deleted ON garth.account (id) WHERE deleted;
-- `account` is 0 for keys of the server.
CREATE TABLE garth.access_key (
  id text COLLATE "C" PRIMARY KEY, account bigint NOT NULL,
  label bytea NOT NULL, scopes text NOT NULL, binding text, hash bytea NOT NULL CHECK (octet_length(hash) = 32),
  request bytea CHECK (octet_length(request) = 32), maker text COLLATE "C", successor text COLLATE "C",
  created bigint NOT NULL, expires bigint, revoked bigint);
CREATE INDEX access_key_of ON garth.access_key (account, created, id);
CREATE INDEX access_key_in_use ON garth.access_key (account, created, id) WHERE revoked IS NULL;
CREATE TABLE garth.account_request (
  number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, caller bytea NOT NULL, key bytea NOT NULL,
  request bytea NOT NULL CHECK (octet_length(request) = 32), at bigint NOT NULL, changed boolean NOT NULL,
  account text COLLATE "C" NOT NULL, folder text, created bigint);
CREATE UNIQUE INDEX account_request_of ON garth.account_request (sha256(caller), sha256(key));
CREATE INDEX account_request_at ON garth.account_request (at);
CREATE TABLE garth.instance (holder bytea PRIMARY KEY, until bigint NOT NULL);

CREATE TABLE garth.head (
  account bigint PRIMARY KEY,
  seq bigint NOT NULL, time bigint NOT NULL, next_ino bigint NOT NULL, next_chunk bigint NOT NULL,
  next_passage bigint NOT NULL, passages bigint NOT NULL,
  control bigint NOT NULL, projections bigint NOT NULL, keyed bigint NOT NULL DEFAULT 0, epoch bigint NOT NULL,
  oldest bigint NOT NULL, oldest_since bigint NOT NULL, folded bigint NOT NULL,
  queued bigint NOT NULL, merged bigint NOT NULL, stored bigint NOT NULL, unindexed bigint NOT NULL, long_dirs bigint NOT NULL, token bytea
) WITH (fillfactor = 40);
CREATE INDEX head_unindexed ON garth.head (account) WHERE unindexed > 0;
CREATE TABLE garth.name (
  account bigint, dir text COLLATE "C", name text COLLATE "C", long text COLLATE "C",
  ino bigint NOT NULL, since bigint NOT NULL, kind smallint NOT NULL,
  PRIMARY KEY (account, dir, name));
CREATE INDEX name_ino ON garth.name (account, ino, dir, name);
CREATE TABLE garth.name_past (
  account bigint, dir text COLLATE "C", name text COLLATE "C", till bigint, long text COLLATE "C",
  ino bigint NOT NULL, since bigint NOT NULL, kind smallint NOT NULL,
  fork bigint NOT NULL, born bigint NOT NULL, born_fork bigint NOT NULL,
  PRIMARY KEY (account, dir, name, till));
CREATE INDEX name_past_ino ON garth.name_past (account, ino, till);
CREATE INDEX name_past_fork ON garth.name_past (account, fork, dir, name);
CREATE INDEX name_past_moved ON garth.name_past (account, dir, name, born_fork) WHERE born < since;
CREATE TABLE garth.node (
  account bigint, ino bigint, seq bigint,
  kind smallint NOT NULL, mode int NOT NULL, uid bigint NOT NULL, gid bigint NOT NULL, rdev bigint NOT NULL,
  nlink bigint NOT NULL, size bigint NOT NULL, mtime bigint NOT NULL, ctime bigint NOT NULL,
  birthtime bigint NOT NULL, atime bigint NOT NULL, target text, attrs_seq bigint NOT NULL,
  expires_at bigint, content_seq bigint NOT NULL,
  PRIMARY KEY (account, ino, seq));
CREATE TABLE garth.attribute (account bigint, ino bigint, seq bigint, json text NOT NULL, PRIMARY KEY (account, ino, seq));
CREATE TABLE garth.dir_time (account bigint, ino bigint, seq bigint NOT NULL, time bigint NOT NULL,
  PRIMARY KEY (account, ino)) WITH (fillfactor = 50);
CREATE TABLE garth.dir_time_past (account bigint, fork bigint, ino bigint, since bigint NOT NULL, till bigint NOT NULL,
  time bigint NOT NULL, PRIMARY KEY (account, fork, ino));
-- Live extents. One that begins where another begins is written over it: no indexed column changes, so no index
-- is written. The space that pages keep free is for these new versions of rows.
CREATE TABLE garth.extent (
  account bigint, ino bigint, off bigint,
  len bigint NOT NULL, since bigint NOT NULL, chunk bigint NOT NULL, skip bigint NOT NULL, older bigint NOT NULL,
  PRIMARY KEY (account, ino, off)) PARTITION BY HASH (account);
-- Extents that ended with commit `till`.
CREATE TABLE garth.extent_past (
  account bigint, ino bigint, till bigint, off bigint,
  len bigint NOT NULL, since bigint NOT NULL, chunk bigint NOT NULL, skip bigint NOT NULL, older bigint NOT NULL,
  PRIMARY KEY (account, ino, till, off)) PARTITION BY HASH (account);
CREATE TABLE garth.chunk (
  account bigint, id bigint, sum bytea NOT NULL, len bigint NOT NULL, data bytea,
  PRIMARY KEY (account, id)) PARTITION BY HASH (account);
CREATE UNIQUE INDEX chunk_sum ON garth.chunk (account, sum) WHERE octet_length(sum) = 32;
DO $$ BEGIN FOR i IN 0..15 LOOP
  EXECUTE format('CREATE TABLE garth.extent_%s PARTITION OF garth.extent FOR VALUES WITH (MODULUS 16, REMAINDER %s)
    WITH (fillfactor = 80)', i, i);
  EXECUTE format('CREATE TABLE garth.extent_past_%s PARTITION OF garth.extent_past
    FOR VALUES WITH (MODULUS 16, REMAINDER %s)', i, i);
  EXECUTE format('CREATE TABLE garth.chunk_%s PARTITION OF garth.chunk FOR VALUES WITH (MODULUS 16, REMAINDER %s)', i, i);
END LOOP; END $$;
-- Number of extents, live and past, and of staged bodies that refer to a chunk. A chunk without a row has one.
-- `marked` is the time at which a collection found a chunk without a reference; a new reference removes it.
CREATE TABLE garth.chunk_refs (account bigint, chunk bigint, count bigint NOT NULL CHECK (count >= 0), marked bigint,
  PRIMARY KEY (account, chunk));
CREATE INDEX chunk_unused ON garth.chunk_refs (account, chunk) WHERE count = 0 AND marked IS NULL;
CREATE INDEX chunk_marked ON garth.chunk_refs (account, marked, chunk) WHERE count = 0 AND marked IS NOT NULL;
CREATE TABLE garth.origin (account bigint, chunk bigint, runs bytea NOT NULL, PRIMARY KEY (account, chunk));
CREATE TABLE garth.owner (account bigint, id bigint, hash bytea NOT NULL, key bytea NOT NULL, PRIMARY KEY (account, id), UNIQUE (account, hash));
-- Uploads. While one arrives, `pieces` is null, and its chunks have the 2^24 ids from `first` on, which are at
-- least 2^62, and no complete hash: nothing refers to them, and `head.stored` does not count them. `holder` is
-- the server that receives it, and `length` the bytes that it may have. Owner -1 are chunks of a commit.
CREATE TABLE garth.staged (account bigint, id uuid, owner bigint NOT NULL, pieces text, length bigint NOT NULL,
  lease bigint NOT NULL, first bigint, holder bytea, PRIMARY KEY (account, id));
CREATE UNIQUE INDEX staged_first ON garth.staged (account, first) WHERE first IS NOT NULL;
CREATE INDEX staged_lease ON garth.staged (account, lease);
CREATE INDEX staged_owner ON garth.staged (account, owner);
-- A lease counts as long as the server `holder` renews its row of `instance`: see the views at the end.
CREATE TABLE garth.lease (account bigint, ino bigint, holder bytea, PRIMARY KEY (account, ino, holder));
CREATE TABLE garth.unnamed (account bigint, ino bigint, doomed_at bigint, PRIMARY KEY (account, ino));
CREATE TABLE garth.past_lease (account bigint, seq bigint, holder bytea, PRIMARY KEY (account, seq, holder));
CREATE TABLE garth.log (
  account bigint, seq bigint, time bigint NOT NULL, owner bigint NOT NULL, id uuid,
  author text, session bytea, message bytea, token bytea, overrides boolean NOT NULL, changes text NOT NULL, answer text,
  PRIMARY KEY (account, seq));
CREATE UNIQUE INDEX log_id ON garth.log (account, owner, id) WHERE id IS NOT NULL;
CREATE INDEX log_time ON garth.log (account, time);
CREATE INDEX log_session ON garth.log (account, session, seq) WHERE session IS NOT NULL;
CREATE TABLE garth.log_more (account bigint, seq bigint, first bigint, changes text NOT NULL, PRIMARY KEY (account, seq, first));
CREATE TABLE garth.idempotency (account bigint, owner bigint, key bytea, hash bytea NOT NULL,
  keep_until bigint NOT NULL, seq bigint NOT NULL, note bytea NOT NULL, PRIMARY KEY (account, owner, key));
CREATE INDEX idempotency_end ON garth.idempotency (account, keep_until);
CREATE INDEX idempotency_seq ON garth.idempotency (account, seq);
CREATE TABLE garth.snapshot (account bigint, owner bigint, name bytea, long bytea, seq bigint NOT NULL, PRIMARY KEY (account, owner, name));
CREATE INDEX snapshot_seq ON garth.snapshot (account, seq);
CREATE TABLE garth.expiry (account bigint, ino bigint, at bigint NOT NULL, PRIMARY KEY (account, ino));
CREATE INDEX expiry_at ON garth.expiry (account, at, ino);
CREATE TABLE garth.rule (account bigint, key bytea, class text NOT NULL, demand text NOT NULL, terms text NOT NULL, PRIMARY KEY (account, key));
CREATE TABLE garth.judged (account bigint, demand bytea, ino bigint, etag bigint NOT NULL, until bigint NOT NULL, lines bigint NOT NULL, PRIMARY KEY (account, demand, ino));
CREATE INDEX judged_ino ON garth.judged (account, ino);
CREATE TABLE garth.quota (account bigint, key bytea, path text NOT NULL, max_bytes bigint, max_entries bigint, bytes bigint NOT NULL, entries bigint NOT NULL,
  PRIMARY KEY (account, key)) WITH (fillfactor = 70);
CREATE TABLE garth.projected (account bigint, projection int, key bytea, ino bigint, line bigint, off bigint NOT NULL, len bigint NOT NULL,
  PRIMARY KEY (account, projection, key, ino, line));
CREATE INDEX projected_ino ON garth.projected (account, ino, projection, off);
-- `tokens` are those of a passage that is in no row of `posting` yet, separated by spaces. One text is smaller than
-- an array, in which each token has a length of its own and is aligned.
CREATE TABLE garth.passage (
  account bigint, id bigint, ino bigint NOT NULL, off bigint NOT NULL, len bigint NOT NULL, lines bigint NOT NULL,
  newline boolean NOT NULL, form smallint NOT NULL, words bigint NOT NULL, hash bigint NOT NULL,
  tokens text COLLATE "C",
  PRIMARY KEY (account, id));
CREATE UNIQUE INDEX passage_place ON garth.passage (account, ino, off);
CREATE INDEX passage_new ON garth.passage (account, id) WHERE tokens IS NOT NULL;
-- Merged passages that contain a token: those of the 4,096 numbers of a block, each as two bytes, its place in the
-- block. The empty token has the merged passages that were removed, until a sweep has taken them out of all rows.
CREATE TABLE garth.posting (account bigint, token text COLLATE "C", block bigint, count int NOT NULL, ids bytea NOT NULL,
  PRIMARY KEY (account, token, block));
-- Removed passages whose `tokens` were null, and which are in no row of the empty token yet.
CREATE TABLE garth.passage_gone (account bigint, id bigint, PRIMARY KEY (account, id));
-- Server that merges, until its lease ends, and the row of `posting` up to which it has swept, during a sweep.
CREATE TABLE garth.merging (account bigint PRIMARY KEY, holder bytea NOT NULL, until bigint NOT NULL,
  token text COLLATE "C", block bigint) WITH (fillfactor = 50);
CREATE TABLE garth.passage_lines (account bigint, ino bigint, block bigint, lines bigint NOT NULL, PRIMARY KEY (account, ino, block));
-- Files whose text is to be indexed from `off` on. A server that does so has a lease, which ends at `until`, and so
-- does a file that cannot be read. `head.unindexed` is 1 if an account may have such files.
CREATE TABLE garth.unindexed (account bigint, ino bigint, off bigint NOT NULL, until bigint NOT NULL DEFAULT 0, PRIMARY KEY (account, ino));
CREATE INDEX unindexed_due ON garth.unindexed (account, until, ino);
-- Run that collects, until its lease ends, and the time of the last search for old content.
CREATE TABLE garth.collecting (account bigint PRIMARY KEY, holder bytea NOT NULL, until bigint NOT NULL,
  searched bigint NOT NULL DEFAULT 0) WITH (fillfactor = 50);
CREATE TABLE garth.retention (account bigint PRIMARY KEY, age bigint, commits bigint, stored bigint);
CREATE TABLE garth.content_limit (account bigint, key bytea, class text NOT NULL, keep bigint NOT NULL, PRIMARY KEY (account, key));
CREATE TABLE garth.content_age (account bigint, keep bigint, seq bigint NOT NULL, PRIMARY KEY (account, keep));
CREATE TABLE garth.content_gone (account bigint, ino bigint, till bigint, since bigint NOT NULL, marked bigint, PRIMARY KEY (account, ino, till));
CREATE INDEX content_marked ON garth.content_gone (account, marked) WHERE marked IS NOT NULL;
CREATE TABLE garth.replaced (account bigint, seq bigint, ino bigint, PRIMARY KEY (account, seq, ino));
CREATE TABLE garth.fold (account bigint PRIMARY KEY, till bigint NOT NULL, phase bigint NOT NULL, at bigint NOT NULL);
CREATE TABLE garth.fold_node (account bigint, ino bigint, PRIMARY KEY (account, ino));
CREATE TABLE garth.author (account bigint, id bigint, json text NOT NULL, PRIMARY KEY (account, id));
CREATE INDEX author_json ON garth.author (account, md5(json));
CREATE TABLE garth.folded_author (account bigint, till bigint, author bigint NOT NULL, PRIMARY KEY (account, till));
CREATE TABLE garth.held (account bigint, seq bigint, PRIMARY KEY (account, seq));
-- FORCE: the role of the servers owns the tables, and an owner is exempt otherwise.
DO $$ DECLARE t record; BEGIN
 FOR t IN SELECT c.oid::regclass AS r, c.relname AS n FROM pg_class c WHERE c.relnamespace = 'garth'::regnamespace AND c.relkind IN ('r','p') LOOP
  EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', t.r);
  EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', t.r);
  EXECUTE format('CREATE POLICY own ON %s USING (%s) WITH CHECK (%s)', t.r,
    CASE WHEN t.n IN ('format','account','access_key','account_request','instance') THEN 'garth.me() = 0' ELSE 'account = garth.me()' END,
    CASE WHEN t.n IN ('format','account','access_key','account_request','instance') THEN 'garth.me() = 0' ELSE 'account = garth.me()' END);
 END LOOP; END $$;
CREATE POLICY marks ON garth.head FOR SELECT USING (garth.me() = 0);
CREATE POLICY seen ON garth.instance FOR SELECT USING (true);
-- Nodes and states of the past that servers hold open, and uploads whose leases have ended.
CREATE VIEW garth.held_node AS SELECT l.account, l.ino, l.holder FROM garth.lease l
  WHERE EXISTS (SELECT FROM garth.instance i WHERE i.holder = l.holder AND i.until > garth.now());
CREATE VIEW garth.held_past AS SELECT l.account, l.seq, l.holder FROM garth.past_lease l
  WHERE EXISTS (SELECT FROM garth.instance i WHERE i.holder = l.holder AND i.until > garth.now());
CREATE VIEW garth.ended_upload AS SELECT s.account, s.id, s.lease, s.pieces IS NOT NULL AS finished FROM garth.staged s
  WHERE s.lease <= (SELECT garth.now());
