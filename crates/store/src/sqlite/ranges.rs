//! Which times of a task are closed or collected.
//!
//! Closed intervals are kept as ranges, so that a bucket without reports is closed as well. Closing
//! ranges may overlap (a failed collection leaves its range closed, and another may cover part of
//! it). Collected ranges never overlap, and neighbours are merged.

use rusqlite::{Connection, params};
use sotto_wire::{Duration, Interval, TaskId, Time};

use super::log::Position;
use crate::Result;

/// What may still be added to a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Open,
    /// Only reports before this position in the log.
    Closing(Position),
    /// Nothing.
    Collected,
}

impl Standing {
    /// Whether a report at this position may be added.
    pub(super) fn admits(self, position: Position) -> bool {
        match self {
            Self::Open => true,
            Self::Closing(end) => position < end,
            Self::Collected => false,
        }
    }
}

/// An interval as one or two ranges of signed integers, ends included, for the database.
pub(super) fn spans(interval: Interval) -> impl Iterator<Item = (i64, i64)> {
    let first = interval.start().as_units();
    let last = interval.end().as_units().saturating_sub(1);
    let top = i64::MAX as u64;
    let lower =
        (!interval.is_empty() && first <= top).then(|| (first as i64, last.min(top) as i64));
    let upper =
        (!interval.is_empty() && last > top).then(|| (first.max(top + 1) as i64, last as i64));
    lower.into_iter().chain(upper)
}

pub(super) fn standing(conn: &Connection, task: i64, time: Time) -> Result<Standing> {
    let mut statement = conn.prepare_cached(
        "SELECT MAX(is_collected), MIN(position) FROM ranges
         WHERE task = ?1 AND first <= ?2 AND last >= ?2",
    )?;
    let time = time.as_units() as i64;
    let row = statement.query_row(params![task, time], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(match row {
        (Some(0), Some(position)) => Standing::Closing(Position::from_sql(position)),
        (Some(_), _) => Standing::Collected,
        (None::<i64>, _) => Standing::Open,
    })
}

pub(super) fn is_any_collected(conn: &Connection, task: i64, interval: Interval) -> Result<bool> {
    let mut statement = conn.prepare_cached(
        "SELECT 1 FROM ranges
         WHERE task = ?1 AND is_collected = 1 AND first <= ?3 AND last >= ?2",
    )?;
    for (first, last) in spans(interval) {
        if statement.exists(params![task, first, last])? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Closes an interval: nothing from `position` on is added.
pub(super) fn close(
    conn: &Connection,
    task: i64,
    interval: Interval,
    position: Position,
) -> Result<()> {
    // If the same range was closed before, nothing has been accepted for it since.
    let mut statement =
        conn.prepare_cached("INSERT OR IGNORE INTO ranges VALUES (?1, 0, ?2, ?3, ?4)")?;
    for (first, last) in spans(interval) {
        statement.execute(params![task, first, last, position.to_sql()])?;
    }
    Ok(())
}

/// Marks an interval collected permanently.
pub(super) fn collect(conn: &Connection, task: i64, interval: Interval) -> Result<()> {
    for (mut first, mut last) in spans(interval) {
        conn.prepare_cached(
            "DELETE FROM ranges
             WHERE task = ?1 AND is_collected = 0 AND first >= ?2 AND last <= ?3",
        )?
        .execute(params![task, first, last])?;
        let neighbours: Vec<(i64, i64)> = conn
            .prepare_cached(
                "SELECT first, last FROM ranges
                 WHERE task = ?1 AND is_collected = 1 AND (last = ?2 OR first = ?3)",
            )?
            .query_map(params![task, first.checked_sub(1), last.checked_add(1)], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })?
            .collect::<rusqlite::Result<_>>()?;
        for (other_first, other_last) in neighbours {
            conn.prepare_cached(
                "DELETE FROM ranges
                 WHERE task = ?1 AND is_collected = 1 AND first = ?2 AND last = ?3",
            )?
            .execute(params![task, other_first, other_last])?;
            first = first.min(other_first);
            last = last.max(other_last);
        }
        conn.prepare_cached("INSERT INTO ranges VALUES (?1, 1, ?2, ?3, 0)")?
            .execute(params![task, first, last])?;
    }
    Ok(())
}

/// All closed or collected intervals, of all tasks or of one.
pub(super) fn closed(conn: &Connection, only: Option<i64>) -> Result<Vec<(TaskId, Interval)>> {
    let mut statement = conn.prepare_cached(
        "SELECT tasks.task_id, first, last FROM ranges JOIN tasks USING (task)
         WHERE ?1 IS NULL OR task = ?1",
    )?;
    let rows = statement.query_map(params![only], |row| {
        Ok((row.get::<_, [u8; 32]>(0)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?))
    })?;
    let mut closed = Vec::new();
    for row in rows {
        let (task_id, first, last) = row?;
        let (first, last) = (first as u64, last as u64);
        let duration = last.saturating_sub(first).saturating_add(1);
        if let Ok(interval) = Interval::new(Time::new(first), Duration::new(duration)) {
            closed.push((TaskId::new(task_id), interval));
        }
    }
    Ok(closed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(start: u64, duration: u64) -> Interval {
        Interval::new(Time::new(start), Duration::new(duration)).unwrap()
    }

    #[test]
    fn spans_cover_an_interval_and_nothing_else() {
        let top = i64::MAX as u64;
        let of = |start, duration| spans(interval(start, duration)).collect::<Vec<_>>();
        assert_eq!(of(5, 0), []);
        assert_eq!(of(5, 3), [(5, 7)]);
        assert_eq!(of(top - 1, 2), [(i64::MAX - 1, i64::MAX)]);
        assert_eq!(of(top, 3), [(i64::MAX, i64::MAX), (i64::MIN, i64::MIN + 1)]);
        assert_eq!(of(top + 1, 1), [(i64::MIN, i64::MIN)]);
        assert_eq!(of(0, u64::MAX), [(0, i64::MAX), (i64::MIN, -2)]);
        assert_eq!(of(u64::MAX - 1, 1), [(-2, -2)]);
    }

    #[test]
    fn neighbours_merge_and_times_above_the_sign_bit_work() {
        let dir = tempfile::tempdir().unwrap();
        let conn = super::super::schema::open_writer(&dir.path().join("db"), 1 << 20).unwrap();
        let rows =
            || -> i64 { conn.query_row("SELECT COUNT(*) FROM ranges", [], |r| r.get(0)).unwrap() };
        let standing = |time| standing(&conn, 1, Time::new(time)).unwrap();
        close(&conn, 1, interval(10, 5), Position::new(1, 100)).unwrap();
        assert_eq!(standing(14), Standing::Closing(Position::new(1, 100)));
        assert_eq!(standing(15), Standing::Open);
        for (start, duration) in [(10, 2), (14, 1), (12, 2)] {
            collect(&conn, 1, interval(start, duration)).unwrap();
            assert!(is_any_collected(&conn, 1, interval(0, start + 1)).unwrap());
        }
        assert_eq!(rows(), 2); // the closing one and one collected
        collect(&conn, 1, interval(i64::MAX as u64, 2)).unwrap();
        assert_eq!(standing(i64::MAX as u64 + 1), Standing::Collected);
        assert_eq!(standing(i64::MAX as u64 + 2), Standing::Open);
        assert!(!is_any_collected(&conn, 1, interval(15, 1000)).unwrap());
        assert_eq!(
            super::super::ranges::standing(&conn, 2, Time::new(12)).unwrap(),
            Standing::Open
        );
    }
}
