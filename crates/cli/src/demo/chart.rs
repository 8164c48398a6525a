//! Tables and bars for the terminal.

use crate::vocabulary::Bucket;

/// Character cells of the longest bar.
const BAR_CELLS: usize = 40;

/// Eighths of a cell.
const PARTS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// One line per bucket: label, true value, estimate with its interval, bar.
///
/// The bar is as long as the estimate. A `┊` marks the true value if it differs from the end of the
/// bar.
pub(crate) fn chart(heading: &str, buckets: &[Bucket]) -> Vec<String> {
    let exact = buckets.iter().all(|bucket| bucket.stderr == 0.0);
    let label_width =
        buckets.iter().map(|b| b.label.chars().count()).max().unwrap_or(0).max(heading.len());
    let truth = |bucket: &Bucket| bucket.truth.unwrap_or_default();
    let largest = buckets.iter().flat_map(|b| [b.estimate, truth(b) as f64]).fold(1.0, f64::max);
    let spread = |bucket: &Bucket| {
        if exact {
            String::new()
        } else {
            format!("  {:>5.0} to {:<6.0}", bucket.lo95, bucket.hi95)
        }
    };
    let spread_head = if exact { "" } else { "     (95 %)     " };
    let head = format!("  {:<label_width$} {:>7} {:>9}{spread_head}", heading, "true", "estimate");
    let rows = buckets.iter().map(|bucket| {
        let estimate = if exact {
            format!("{:.0}", bucket.estimate)
        } else {
            format!("{:.1}", bucket.estimate)
        };
        let bar = bar(bucket.estimate / largest, truth(bucket) as f64 / largest);
        format!(
            "  {:<label_width$} {:>7} {estimate:>9}{} {bar}",
            bucket.label,
            truth(bucket),
            spread(bucket)
        )
    });
    std::iter::once(head).chain(rows).map(|line| line.trim_end().to_owned()).collect()
}

/// Both values are fractions of the longest bar.
fn bar(estimate: f64, truth: f64) -> String {
    let eighths =
        |fraction: f64| (fraction.clamp(0.0, 1.0) * (BAR_CELLS * 8) as f64).round() as usize;
    let filled = eighths(estimate);
    let mut cells: Vec<char> = vec!['█'; filled / 8];
    if filled % 8 > 0 {
        cells.push(PARTS[filled % 8]);
    }
    let marker = (eighths(truth) / 8).min(BAR_CELLS - 1);
    if eighths(truth).abs_diff(filled) >= 8 {
        while cells.len() <= marker {
            cells.push(' ');
        }
        cells[marker] = '┊';
    }
    cells.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_values() {
        assert_eq!(bar(1.0, 1.0).chars().count(), BAR_CELLS);
        assert_eq!(bar(0.5, 0.5).chars().count(), BAR_CELLS / 2);
        assert_eq!(bar(0.0, 0.0), "");
        assert_eq!(bar(-0.3, 0.0), "");
        assert_eq!(bar(1.0 / 80.0, 1.0 / 80.0), "▌");
        assert_eq!(bar(0.5, 1.0).chars().last(), Some('┊'));
        assert_eq!(bar(1.0, 0.5).chars().nth(20), Some('┊'));
    }

    #[test]
    fn exact_buckets_have_no_interval() {
        let buckets = [Bucket::exact("queen", 20, 20), Bucket::exact("dodo", 10, 10)];
        insta::assert_snapshot!(chart("word", &buckets).join("\n"), @r"
          word     true  estimate
          queen      20        20 ████████████████████████████████████████
          dodo       10        10 ████████████████████
        ");
    }

    #[test]
    fn estimates_have_one() {
        let bucket = Bucket {
            label: "tea".to_owned(),
            truth: Some(10),
            estimate: 20.0,
            stderr: 5.0,
            lo95: 10.2,
            hi95: 29.8,
            noise: None,
        };
        insta::assert_snapshot!(chart("word", &[bucket]).join("\n"), @r"
          word    true  estimate     (95 %)
          tea       10      20.0     10 to 30     ████████████████████┊███████████████████
        ");
    }
}
