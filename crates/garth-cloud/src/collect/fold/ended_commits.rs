//! Commits before the oldest state, which leave the log. Who made them stays, because their bytes are still
//! read.

use garth_engine::Result;
use garth_engine::engine::relational::fold_pass::Pass;
use garth_engine::engine::relational::folded_authors::numbered;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::pass;
use crate::client::param;
use crate::collect::step::{Run, Step};
use crate::values::columns::{column, int, number};
use crate::values::parameters::{ints, list};
use crate::weights::{log_more_weight, log_weight};

/// Next commits before commit `$2` after the place of the pass, until their changes take `$3` pieces; of
/// one commit at least. Those with an idempotency key stay in the log: a retry gets its answer as long as
/// the record of the key.
const COMMITS: &str = concat!(
    "SELECT p.seq, p.author, (CASE WHEN EXISTS (SELECT FROM garth.idempotency WHERE account = $1 AND seq = p.seq)
            THEN 0 ELSE p.weight + p.more_weight END)::bigint
    FROM (SELECT l.seq, l.author, l.weight, m.weight AS more_weight,
            sum(1 + m.more) OVER (ORDER BY l.seq) - 1 - m.more AS before
        FROM (SELECT c.seq, c.author, ",
    log_weight!("c"),
    " AS weight FROM garth.log c
            WHERE c.account = $1 AND c.seq > (SELECT at FROM garth.fold WHERE account = $1) AND c.seq < $2
            ORDER BY c.seq LIMIT $3) l
        CROSS JOIN LATERAL (SELECT count(*) AS more, coalesce(sum(",
    log_more_weight!("c"),
    "), 0) AS weight FROM garth.log_more c WHERE c.account = $1 AND c.seq = l.seq OFFSET 0) m) p
    WHERE p.before < $3 ORDER BY p.seq"
);
/// Last run of commits by one author.
const LAST: &str = "SELECT f.till, a.json
    FROM (SELECT till, author FROM garth.folded_author WHERE account = $1 ORDER BY till DESC LIMIT 1) f
    LEFT JOIN garth.author a ON a.account = $1 AND a.id = f.author";
const AUTHORS: &str = "INSERT INTO garth.author (account, id, json)
    SELECT $1, (SELECT coalesce(max(id), 0) FROM garth.author WHERE account = $1) + row_number() OVER (), k.json
    FROM (SELECT DISTINCT json FROM unnest($2::text[]) u(json) WHERE json IS NOT NULL) k
    WHERE NOT EXISTS (SELECT FROM garth.author a
        WHERE a.account = $1 AND md5(a.json) = md5(k.json) AND a.json = k.json)";
const LONGER: &str = "UPDATE garth.folded_author SET till = $3 WHERE account = $1 AND till = $2";
/// The default author has the number 0, and no row.
const RUNS: &str = "INSERT INTO garth.folded_author (account, till, author)
    SELECT $1, k.till, coalesce((SELECT a.id FROM garth.author a
        WHERE a.account = $1 AND md5(a.json) = md5(k.json) AND a.json = k.json), 0)
    FROM unnest($2::bigint[], $3::text[]) k(till, json)";
const NO_COMMITS: &str = "DELETE FROM garth.log l WHERE l.account = $1 AND l.seq > $2 AND l.seq <= $3
    AND NOT EXISTS (SELECT FROM garth.idempotency i WHERE i.account = $1 AND i.seq = l.seq)";
const NO_MORE: &str = "DELETE FROM garth.log_more l WHERE l.account = $1 AND l.seq > $2 AND l.seq <= $3
    AND NOT EXISTS (SELECT FROM garth.idempotency i WHERE i.account = $1 AND i.seq = l.seq)";
const FOLDED: &str = "UPDATE garth.head SET folded = greatest(folded, $2) WHERE account = $1";
const END: &str = "DELETE FROM garth.fold WHERE account = $1";

/// Commits in a row by one author: the last of them, and the author; `None` for the default one.
type AuthorRun = (u64, Option<String>);

/// Removes the commits before the pass from the log, and ends the pass.
///
/// # Errors
/// As [`Run::step`].
pub(super) async fn remove(run: &mut Run<'_>, pass: Pass) -> Result<()> {
    loop {
        let numbers = [int(pass.till), run.rows()].map(|number| param(number, Type::INT8));
        let statements = [pass::statement(), (COMMITS, numbers.into()), (LAST, Vec::new())];
        let (mut step, [known, commits, last]) = run.step(statements).await?;
        let Some(place) = pass::read(&known)?.filter(|place| place.is_in(pass)) else {
            run.commit(step).await?;
            return Ok(());
        };
        let Some(reached) = commits.last() else {
            let before = step.head.folded;
            step.add(FOLDED, vec![param(int(pass.till), Type::INT8)]);
            step.add(END, Vec::new());
            run.commit(step).await?;
            run.collected.folded += pass.till.saturating_sub(before);
            return Ok(());
        };
        let reached = number(reached, 0)?;
        let last = last.first().map(|row| Ok::<_, garth_engine::Error>((number(row, 0)?, column(row, 1)?)));
        keep_authors(&mut step, last.transpose()?.as_ref(), &commits)?;
        let span = || [place.at, reached].map(|seq| param(int(seq), Type::INT8)).into();
        step.add(NO_MORE, span());
        step.add(NO_COMMITS, span());
        for row in &commits {
            step.frees(number(row, 2)?);
        }
        pass::put(&mut step, Pass { at: reached, ..place });
        run.commit(step).await?;
    }
}

/// Adds the statements that write the authors of commits. `last` is the last run that was written.
fn keep_authors(step: &mut Step, last: Option<&AuthorRun>, commits: &[Row]) -> Result<()> {
    let mut read = Vec::with_capacity(commits.len());
    for row in commits {
        read.push((number(row, 0)?, numbered(column::<Option<&str>>(row, 1)?).map(str::to_owned)));
    }
    let (longer, runs) = author_runs(last, read);
    if let Some(change) = longer {
        step.add(LONGER, [change.0, change.1].map(|seq| param(int(seq), Type::INT8)).into());
    }
    if !runs.is_empty() {
        let authors = || list(runs.iter().map(|(_, author)| author.clone()), Type::TEXT_ARRAY);
        step.add(AUTHORS, vec![authors()]);
        step.add(RUNS, vec![ints(runs.iter().map(|(till, _)| *till)), authors()]);
    }
    Ok(())
}

/// Joins commits in a row by one author. Returns the old and new end of the last run that was written, if
/// that goes on, and the runs after it.
fn author_runs(
    last: Option<&AuthorRun>,
    commits: Vec<(u64, Option<String>)>,
) -> (Option<(u64, u64)>, Vec<AuthorRun>) {
    let (mut longer, mut runs): (Option<(u64, u64)>, Vec<AuthorRun>) = (None, Vec::new());
    for (seq, author) in commits {
        match (runs.last_mut(), last) {
            (Some(run), _) if run.1 == author => run.0 = seq,
            (None, Some((till, of))) if *of == author => longer = Some((*till, seq)),
            _ => runs.push((seq, author)),
        }
    }
    (longer, runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_in_a_row_by_one_author_share_a_row() {
        let of = |seq, author: &str| (seq, (!author.is_empty()).then(|| author.to_owned()));
        let commits = || vec![of(4, "scout"), of(5, "scout"), of(6, ""), of(7, ""), of(8, "scout")];
        let runs = vec![of(7, ""), of(8, "scout")];
        assert_eq!(author_runs(Some(&of(3, "scout")), commits()), (Some((3, 5)), runs.clone()));
        let all = [vec![of(5, "scout")], runs].concat();
        assert_eq!(author_runs(None, commits()), (None, all.clone()));
        assert_eq!(author_runs(Some(&of(3, "")), commits()), (None, all));
    }
}
