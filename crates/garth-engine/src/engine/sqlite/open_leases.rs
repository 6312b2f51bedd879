//! Leases in the database on the nodes and past states that this instance holds open.

use rusqlite::Connection;

use crate::engine::relational::open_nodes::{LEASE, OpenNodes};
use crate::engine::relational::open_pasts::OpenPasts;
use crate::engine::sqlite::tables::{leases, past_leases};
use crate::model::Timestamp;
use crate::sqlite::DbResult;

impl OpenNodes {
    /// Records unnamed nodes for `gc`, and takes leases on them, in the transaction that writes them. A node
    /// whose last handle was closed after the write was planned gets none, because nothing would release it.
    pub(crate) fn written(
        &self,
        conn: &Connection,
        unnamed: impl IntoIterator<Item = u64>,
        now: Timestamp,
    ) -> DbResult<()> {
        for ino in unnamed {
            leases::put_unnamed(conn, ino)?;
            self.lease(conn, [ino], now)?;
        }
        Ok(())
    }

    /// Takes leases on those of these unnamed nodes that are open here.
    fn lease(
        &self,
        conn: &Connection,
        unnamed: impl IntoIterator<Item = u64>,
        now: Timestamp,
    ) -> DbResult<()> {
        for ino in unnamed {
            if !self.note_lease(ino) {
                continue;
            }
            leases::put(conn, ino, self.holder(), now.plus_seconds(LEASE).0)?;
            // Unmarked, so that a node whose lease runs out gets the full grace period again.
            leases::unmark(conn, ino)?;
        }
        Ok(())
    }

    /// Removes this instance's lease.
    pub(crate) fn release(&self, conn: &Connection, ino: u64) -> DbResult<()> {
        leases::remove(conn, ino, self.holder())
    }

    /// Renews this instance's leases, also those that ran out while the machine slept, and takes leases on
    /// open nodes that `gc` has marked because another instance wrote them.
    pub(crate) fn renew(&self, conn: &Connection, now: Timestamp) -> DbResult<()> {
        self.lease(conn, self.leased(), now)?;
        self.lease(conn, leases::marked(conn)?, now)
    }
}

impl OpenPasts {
    /// Takes leases on the states that are open, or renews them, and removes those of the states that are no
    /// longer.
    pub(crate) fn renew(&self, conn: &Connection, now: Timestamp) -> DbResult<()> {
        let changes = self.note_leases();
        for seq in changes.ended {
            past_leases::remove(conn, self.holder(), seq)?;
        }
        for seq in changes.held {
            past_leases::put(conn, self.holder(), seq, now.plus_seconds(LEASE).0)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::engine::sqlite::schema;

    #[test]
    fn views_open_at_a_tick_have_leases() {
        let conn = Connection::open_in_memory().unwrap();
        schema::make_tables(&conn);
        let pasts = Arc::new(OpenPasts::new([1; 16]));
        let leased =
            |now: i64| past_leases::of_others(&conn, &[2; 16], Timestamp(0).plus_seconds(now).0).unwrap();
        let tick = |now: i64| pasts.renew(&conn, Timestamp(0).plus_seconds(now)).unwrap();
        let open = |seq, time| pasts.open(seq, time, Timestamp(0));
        let (short, long) = (open(5, 50), open(3, 30));
        drop(short);
        tick(60);
        assert_eq!(leased(60), [3], "a view that was closed before writes nothing");
        tick(120);
        assert_eq!(leased(60 + LEASE), [3], "renewed");
        drop(long);
        assert!(pasts.any(), "its lease is left");
        tick(180);
        assert_eq!(leased(180), [0; 0]);
        assert!(!pasts.any());
    }
}
