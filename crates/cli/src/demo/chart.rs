//! Tables and bars for the terminal.

use crate::output::columns;
use crate::vocabulary::Bucket;

/// Character cells of the longest bar, where there is room, and where labels are long.
const MOST_CELLS: usize = 40;
const LEAST_CELLS: usize = 10;

/// Eighths of a cell.
const PARTS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// One line per bucket: label, true value, estimate with its interval, bar. All fit `width`; a label
/// that does not gets more lines.
///
/// The bar is as long as the estimate. A `┊` marks the true value if it differs from the end of the
/// bar.
pub(crate) fn chart(heading: &str, buckets: &[Bucket], width: usize) -> Vec<String> {
    let exact = buckets.iter().all(|bucket| bucket.stderr == 0.0);
    let numbers = if exact { 20 } else { 37 };
    let longest = buckets.iter().map(|b| columns(&b.label)).max().unwrap_or(0);
    let room = width.saturating_sub(numbers + 2 + LEAST_CELLS).max(heading.len());
    let label_width = longest.clamp(heading.len(), room);
    let cells = width.saturating_sub(numbers + 2 + label_width).clamp(LEAST_CELLS, MOST_CELLS);
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
    let rows = buckets.iter().flat_map(|bucket| {
        let estimate = if exact {
            format!("{:.0}", bucket.estimate)
        } else {
            format!("{:.1}", bucket.estimate)
        };
        let bar = bar(bucket.estimate / largest, truth(bucket) as f64 / largest, cells);
        let mut label = cut(&bucket.label, label_width).into_iter();
        let first = label.next().unwrap_or_default();
        let pad = " ".repeat(label_width.saturating_sub(columns(&first)));
        let row =
            format!("  {first}{pad} {:>7} {estimate:>9}{} {bar}", truth(bucket), spread(bucket));
        std::iter::once(row).chain(label.map(|rest| format!("  {rest}"))).collect::<Vec<_>>()
    });
    std::iter::once(head).chain(rows).map(|line| line.trim_end().to_owned()).collect()
}

/// The label in pieces of at most this many columns.
fn cut(label: &str, width: usize) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for character in label.chars() {
        let piece = pieces.last().map_or(0, |piece| columns(piece));
        if piece > 0 && piece + columns(character.encode_utf8(&mut [0; 4])) > width {
            pieces.push(String::new());
        }
        pieces.iter_mut().last().into_iter().for_each(|piece| piece.push(character));
    }
    pieces
}

/// Both values are fractions of the longest bar, which has this many cells.
fn bar(estimate: f64, truth: f64, most: usize) -> String {
    let eighths = |fraction: f64| (fraction.clamp(0.0, 1.0) * (most * 8) as f64).round() as usize;
    let filled = eighths(estimate);
    let mut cells: Vec<char> = vec!['█'; filled / 8];
    if filled % 8 > 0 {
        cells.push(PARTS[filled % 8]);
    }
    let marker = (eighths(truth) / 8).min(most.saturating_sub(1));
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
        assert_eq!(bar(1.0, 1.0, 40).chars().count(), 40);
        assert_eq!(bar(0.5, 0.5, 40).chars().count(), 20);
        assert_eq!(bar(0.0, 0.0, 40), "");
        assert_eq!(bar(-0.3, 0.0, 40), "");
        assert_eq!(bar(1.0 / 80.0, 1.0 / 80.0, 40), "▌");
        assert_eq!(bar(0.5, 1.0, 40).chars().last(), Some('┊'));
        assert_eq!(bar(1.0, 0.5, 40).chars().nth(20), Some('┊'));
    }

    #[test]
    fn exact_buckets_have_no_interval() {
        let buckets = [Bucket::exact("queen", 20, 20), Bucket::exact("dodo", 10, 10)];
        insta::assert_snapshot!(chart("word", &buckets, 80).join("\n"), @r"
          word     true  estimate
          queen      20        20 ████████████████████████████████████████
          dodo       10        10 ████████████████████
        ");
    }

    /// A label that is too long for its column gets more lines, so that all fit.
    #[test]
    fn long_labels_fit() {
        let label = "an answer that is much longer than others and does not fit into one line";
        let mut long = Bucket::exact(label, 20, 20);
        long.stderr = 1.0;
        for width in [60, 80, 100] {
            let lines = chart("answer", &[long.clone(), Bucket::exact("東京", 10, 10)], width);
            assert!(lines.iter().all(|line| columns(line) <= width), "{lines:#?}");
            assert!(lines.iter().any(|line| line.contains("東京 ")), "{lines:#?}");
            let shown: String = lines.iter().filter_map(|line| line.get(2..30)).collect();
            assert!(shown.contains("an answer"), "{lines:#?}");
        }
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
        insta::assert_snapshot!(chart("word", &[bucket], 80).join("\n"), @r"
          word    true  estimate     (95 %)
          tea       10      20.0     10 to 30     ██████████████████┊██████████████████
        ");
    }
}
