//! Refusals of content before it is received.

use garth_engine::Result;
use garth_engine::engine::planner::MAX_EXTENT;
use garth_engine::engine::relational::upload_counts::UploadCount;
use garth_engine::rule::quota::Quotas;
use tokio_postgres::types::Type;

use crate::client::param;
use crate::control::{CONTROL, Control, ControlCache};
use crate::holds::Holds;
use crate::rows::{QUOTAS, quotas_of};
use crate::transaction::deleted;
use crate::values::columns::{int, number};
use crate::values::labels;
use crate::weights::stored_bytes;

/// Version of the control data, and the stored bytes with those that arrive at other servers.
const HEAD: &str = concat!(
    "SELECT control, ",
    stored_bytes!(),
    " + (SELECT coalesce(sum(s.length), 0)::bigint FROM garth.staged s
        WHERE s.account = $1 AND s.first IS NOT NULL AND s.lease > garth.now() AND s.holder <> $2)
    FROM garth.head WHERE account = $1"
);
/// Uploads of an owner that no commit has used, and their bytes. One of a single chunk takes no room, as the
/// number of uploads bounds these. Chunks that were stored before take room as others do: otherwise the room
/// would reveal what else the account stores. Those that arrive here are counted in memory.
const HELD: &str = "SELECT count(*),
        coalesce(sum(CASE WHEN pieces IS NULL OR length > $4 THEN length ELSE 0 END), 0)::bigint
    FROM garth.staged WHERE account = $1 AND lease > garth.now() AND (pieces IS NOT NULL OR holder <> $3)
        AND owner = CASE WHEN octet_length($2::bytea) = 0 THEN 0
            ELSE (SELECT id FROM garth.owner WHERE account = $1 AND hash = $2) END";

/// Uploads of an owner in an account, and what limits content in it.
pub(crate) struct Admission {
    pub(crate) held: UploadCount,
    pub(crate) control: Control,
    /// Stored bytes, and those of uploads that arrive at other servers.
    pub(crate) used: u64,
    pub(crate) quotas: Quotas,
}

/// Reads what limits the content of an owner, in one round trip.
///
/// # Errors
/// `NotFound` if the account was deleted; errors of the database.
pub(crate) async fn admission(holds: &Holds, control: &ControlCache, owner: &str) -> Result<Admission> {
    let conn = holds.pool().connection().await?;
    let known = control.last();
    let mut statements = holds.statements(&conn);
    statements.begin();
    let head = statements.query(HEAD, vec![holds.holder()]);
    let owner = param(labels::owner(owner), Type::BYTEA);
    let held = statements.query(HELD, vec![owner, holds.holder(), param(int(MAX_EXTENT as u64), Type::INT8)]);
    let rows = statements.query(CONTROL, vec![param(int(known.version), Type::INT8)]);
    let quotas = statements.query(QUOTAS, Vec::new());
    statements.commit();
    let answers = statements.run().await;
    let answers = conn.settle(answers).await?;
    let head = answers.first(head).ok_or_else(deleted)?;
    let held = answers.first(held).ok_or_else(deleted)?;
    Ok(Admission {
        held: UploadCount { uploads: number(held, 0)?, bytes: number(held, 1)? },
        control: control.at(&known, number(head, 0)?, answers.rows(rows))?,
        used: number(head, 1)?,
        quotas: quotas_of(answers.rows(quotas))?,
    })
}
