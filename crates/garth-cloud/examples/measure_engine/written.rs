//! Bytes that a put writes.

use std::sync::Arc;

use garth_cloud::client::{Connection, Pipe};
use garth_engine::FileSystem;
use garth_engine::model::{Batch, Op, SetAttrs};
use garth_engine::path::TreePath;

use crate::table::Table;
use crate::texts::Texts;
use crate::{Outcome, Server, execute};

const LSN: &str = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint";

/// Measures the log of a put of 2 KiB of text, and what SQLite writes to the disk for one.
pub(crate) async fn measure(
    server: &Server,
    (sqlite, postgres): (&Arc<dyn FileSystem>, &Arc<dyn FileSystem>),
    calls: usize,
) -> Outcome<()> {
    let mut table =
        Table::new(&["put of 2 KiB of text, one at a time", "SQLite, to the disk", "Postgres, WAL"]);
    let mut texts = Texts::read()?;
    for (name, path, indexed) in [
        ("a new file, not indexed", "/written/plain", false),
        ("a new file, indexed", "/written/indexed", true),
        ("over a file, not indexed", "/written/plain-over", false),
        ("over a file, indexed", "/written/indexed-over", true),
    ] {
        let is_new = !path.ends_with("over");
        let mut put = async |fs: &Arc<dyn FileSystem>| -> Outcome<()> {
            for number in 0..calls {
                let path = if is_new { format!("{path}/f{number}") } else { format!("{path}/f") };
                let write = Op::write(TreePath::parse(&path)?, texts.next(2048)).with_parents();
                fs.commit(Batch::new([write.with_attrs(SetAttrs::new().searchable(indexed))])).await?;
            }
            Ok(())
        };
        let before = disk()?;
        put(sqlite).await?;
        let of_sqlite = disk()? - before;
        // Pages are logged as a whole after a checkpoint, which would count for the first puts alone.
        put(postgres).await?;
        execute(&server.admin, "SELECT pg_switch_wal()").await?;
        let before = wal(&server.admin).await?;
        let again = format!("{path}-again");
        for number in 0..calls {
            let path = if is_new { format!("{again}/f{number}") } else { format!("{path}/f") };
            let write = Op::write(TreePath::parse(&path)?, texts.next(2048)).with_parents();
            postgres.commit(Batch::new([write.with_attrs(SetAttrs::new().searchable(indexed))])).await?;
        }
        let of_postgres = wal(&server.admin).await? - before;
        let each = |bytes: i64| format!("{:.1} KiB", bytes as f64 / 1024.0 / calls as f64);
        table.row(&[name.to_owned(), each(of_sqlite), each(of_postgres)]);
    }
    println!("{table}");
    Ok(())
}

async fn wal(admin: &Connection) -> Outcome<i64> {
    let mut pipe = Pipe::new(admin);
    let place = pipe.query(LSN, Vec::new());
    Ok(pipe.run().await?[place][0].get(0))
}

/// Returns the bytes that this process has had written to disks.
fn disk() -> Outcome<i64> {
    let counts = std::fs::read_to_string("/proc/self/io")?;
    let bytes = counts.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    Ok(bytes.ok_or("/proc/self/io has no write_bytes")?.parse()?)
}
