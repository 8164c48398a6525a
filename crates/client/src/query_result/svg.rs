//! A result as a picture: bars with both intervals, and where the result comes from.
//!
//! Nothing is measured, since there is no font here: widths are upper bounds, so that no text is
//! cut off. Colours are those of Okabe and Ito, which colour-blind people can tell apart, and change
//! with the reader's theme.

pub mod axis;
mod curve;
pub mod text;

use std::fmt::Write;

use sotto_wire::utc;

use self::axis::Axis;
use self::text::{escaped, width, wrapped};
use super::statistics::MEAN;
use super::{Kind, Meaning, QueryResult, Row};

/// All lengths are in pixels.
const WIDTH: f64 = 760.0;
const MARGIN: f64 = 24.0;
const INNER: f64 = WIDTH - 2.0 * MARGIN;
const LABELS_AT_MOST: f64 = 220.0;
const LINE: f64 = 18.0;
const TEXT: f64 = 13.0;
const TITLE: f64 = 17.0;
const SMALL: f64 = 11.0;
const BAR: f64 = 14.0;

/// More than these bars are not read.
const MOST_BARS: usize = 200;

const STYLE: &str = "\
:root{color-scheme:light dark}\
text{font-family:system-ui,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;fill:#1b1b1b}\
.ground{fill:#fff}.muted{fill:#595959}.grid{stroke:#e0e0e0}.zero{stroke:#595959}\
.bar{fill:#56b4e9}.noise{stroke:#d55e00}.total{stroke:#1b1b1b}\
.band{fill:#56b4e9;fill-opacity:.25}.inner{fill:#d55e00;fill-opacity:.35}\
.curve{stroke:#0072b2;stroke-width:1.5;fill:none}\
@media(prefers-color-scheme:dark){text{fill:#f2f2f2}.ground{fill:#16191d}.muted{fill:#b0b0b0}\
.grid{stroke:#3a3f45}.zero{stroke:#b0b0b0}.bar{fill:#0072b2}.curve{stroke:#f2f2f2}.noise{stroke:#e69f00}\
.total{stroke:#f2f2f2}}";

impl QueryResult {
    /// As an SVG image, with a bar for each bucket, of which it shows the largest 200, or a curve over
    /// the coordinates of a vector.
    pub fn to_svg(&self) -> String {
        let rows = self.bars();
        let mut image = Image::new();
        for line in wrapped(&self.title(), INNER, TITLE) {
            image.text(
                MARGIN,
                TITLE + 6.0,
                &format!("font-size=\"{TITLE}\" font-weight=\"600\""),
                &line,
            );
        }
        for line in self.facts(rows.len()).iter().flat_map(|fact| wrapped(fact, INNER, TEXT)) {
            image.text(MARGIN, LINE, "class=\"muted\" font-size=\"13\"", &line);
        }
        let has_noise = rows.iter().filter_map(|row| row.noise).any(|noise| noise.low < noise.high);
        let has_total = rows.iter().any(|row| row.stderr > 0.0);
        image.y += 10.0;
        match self.meaning.as_ref().and_then(|meaning| meaning.coordinates.as_ref()) {
            None => {
                image.legend(has_noise, has_total);
                image.bars(&rows);
            }
            Some(coordinates) => {
                image.legend_of_curve();
                image.curve(coordinates);
            }
        }
        for line in self.origin_lines().iter().flat_map(|line| wrapped(line, INNER, SMALL)) {
            image.text(MARGIN, SMALL + 5.0, "class=\"muted\" font-size=\"11\"", &line);
        }
        image.finish(&self.title())
    }

    /// What a picture has a bar for: numbers of one unit, none of a vector, and of many the largest.
    pub fn bars(&self) -> Vec<Row> {
        let mut rows = match &self.meaning {
            // The number of devices has another unit.
            Some(meaning) if meaning.kind == Kind::Mean => {
                meaning.statistics.iter().filter(|row| row.label == MEAN).cloned().collect()
            }
            Some(Meaning { coordinates: Some(_), .. }) => return Vec::new(),
            _ => self.buckets(),
        };
        if rows.len() > MOST_BARS {
            let mut estimates: Vec<f64> = rows.iter().map(|row| row.estimate).collect();
            estimates.sort_by(|a, b| b.total_cmp(a));
            let least = estimates[MOST_BARS - 1];
            rows.retain(|row| row.estimate >= least);
            rows.truncate(MOST_BARS);
        }
        rows
    }

    fn title(&self) -> String {
        match &self.meaning {
            Some(meaning) => meaning.purpose.clone(),
            None => format!("Task {}", self.task_id),
        }
    }

    fn facts(&self, bars: usize) -> Vec<String> {
        let (start, end) = (utc::format(self.interval.start), utc::format(self.interval.end()));
        let mut facts = vec![format!("{} reports, {start} to {end}", self.count)];
        let Some(meaning) = &self.meaning else { return facts };
        facts.push(match meaning.delta {
            Some(delta) => format!("epsilon {} at delta {delta:e}", meaning.epsilon),
            None => "no privacy is claimed: exact values were summed".to_owned(),
        });
        let said = |row: &&Row| meaning.kind != Kind::Mean || row.label != MEAN;
        facts.extend(meaning.statistics.iter().filter(said).map(|row| {
            let interval = row.interval_text(row.low, row.high);
            format!("{}: {} ({interval})", row.label, row.text(row.estimate))
        }));
        if let Some(coordinates) = &meaning.coordinates {
            let (all, most) = (coordinates.len(), curve::MOST_POINTS);
            let points = if all > most { ", several at each point of the curve" } else { "" };
            facts.push(format!("{all} coordinates{points}"));
        }
        let all = meaning.buckets.len();
        if all > MOST_BARS && meaning.kind != Kind::Mean {
            facts.push(format!("The {bars} largest of {all} buckets"));
        }
        facts
    }

    fn origin_lines(&self) -> Vec<String> {
        let Some(meaning) = &self.meaning else { return Vec::new() };
        let index = meaning.index.map(|index| format!(", entry {index}")).unwrap_or_default();
        let (leader, helper) = (&meaning.leader_operator, &meaning.helper_operator);
        vec![
            format!("Recipe {} {}", meaning.name, meaning.recipe_id),
            format!("Log {}{index}. Leader {leader}, helper {helper}", meaning.log),
        ]
    }
}

/// The elements so far, and how far down they reach.
struct Image {
    body: String,
    y: f64,
}

impl Image {
    fn new() -> Self {
        Self { body: String::new(), y: MARGIN - 8.0 }
    }

    /// A line of text whose base is `down` below what there is.
    fn text(&mut self, x: f64, down: f64, attributes: &str, text: &str) {
        self.y += down;
        self.put(x, self.y, attributes, text);
    }

    fn put(&mut self, x: f64, y: f64, attributes: &str, text: &str) {
        let text = escaped(text);
        self.add(format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" {attributes}>{text}</text>\n"));
    }

    fn line(&mut self, class: &str, thickness: f64, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.add(format_args!(
            "<line class=\"{class}\" stroke-width=\"{thickness}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" \
             x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>\n"
        ));
    }

    fn bar(&mut self, x: f64, y: f64, length: f64) {
        if length < 0.05 {
            return;
        }
        self.add(format_args!(
            "<rect class=\"bar\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{length:.1}\" height=\"{BAR}\"/>\n",
            y - BAR / 2.0
        ));
    }

    /// From `low` to `high`, with a mark at each end.
    fn total(&mut self, low: f64, high: f64, y: f64) {
        self.line("total", 1.5, (low, y), (high, y));
        for x in [low, high] {
            self.line("total", 1.5, (x, y - 5.0), (x, y + 5.0));
        }
    }

    /// Nothing where there is no noise.
    fn noise(&mut self, low: f64, high: f64, y: f64) {
        if high > low {
            self.line("noise", 5.0, (low, y), (high, y));
        }
    }

    fn legend(&mut self, noise: bool, total: bool) {
        self.y += LINE;
        let (mut x, y) = (MARGIN, self.y);
        let mut entry = |image: &mut Self, text: &str, draw: fn(&mut Self, f64, f64)| {
            draw(image, x, y - 4.5);
            image.put(x + 38.0, y, "font-size=\"13\"", text);
            x += 38.0 + width(text, TEXT) + 16.0;
        };
        entry(self, "estimate", |image, x, y| image.bar(x, y, 30.0));
        if noise {
            entry(self, "95 %, noise", |image, x, y| image.noise(x, x + 30.0, y));
        }
        if total {
            entry(self, "95 %, noise and sampling", |image, x, y| image.total(x, x + 30.0, y));
        }
    }

    fn legend_of_curve(&mut self) {
        self.y += LINE;
        let (mut x, y) = (MARGIN, self.y);
        for (class, text) in
            [("curve", "estimate"), ("inner", "95 %, noise"), ("band", "95 %, noise and sampling")]
        {
            if class == "curve" {
                self.line(class, 2.0, (x, y - 4.5), (x + 30.0, y - 4.5));
            } else {
                let at = y - 4.5 - BAR / 2.0;
                self.add(format_args!(
                    "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{at:.1}\" width=\"30\" height=\"{BAR}\"/>\n"
                ));
            }
            self.put(x + 38.0, y, "font-size=\"13\"", text);
            x += 38.0 + width(text, TEXT) + 16.0;
        }
    }

    fn bars(&mut self, rows: &[Row]) {
        let widest =
            |texts: &[String]| texts.iter().map(|one| width(one, TEXT)).fold(0.0, f64::max);
        let labels: Vec<Vec<String>> =
            rows.iter().map(|row| wrapped(&row.label, LABELS_AT_MOST, TEXT)).collect();
        let left = MARGIN + labels.iter().map(|lines| widest(lines)).fold(0.0, f64::max) + 10.0;
        let values: Vec<String> = rows.iter().map(|row| row.text(row.estimate)).collect();
        let right = WIDTH - MARGIN - widest(&values) - 12.0;
        let axis = Axis::over(rows, left, right);
        self.y += 26.0;
        let (ticks_at, top) = (self.y, self.y + 8.0);
        let height = |lines: &Vec<String>| LINE * lines.len().max(1) as f64 + 8.0;
        let bottom = top + labels.iter().map(height).sum::<f64>() + 4.0;
        for (x, text) in axis.ticks_across(WIDTH) {
            self.put(x, ticks_at, "class=\"muted\" font-size=\"11\" text-anchor=\"middle\"", &text);
            self.line("grid", 1.0, (x, top), (x, bottom));
        }
        let mut from = top + 4.0;
        for ((row, label), value) in rows.iter().zip(&labels).zip(&values) {
            let middle = from + height(label) / 2.0;
            let first = middle - LINE * (label.len() as f64 - 1.0) / 2.0 + 4.5;
            for (line, text) in label.iter().enumerate() {
                let at = first + LINE * line as f64;
                self.put(left - 10.0, at, "font-size=\"13\" text-anchor=\"end\"", text);
            }
            let (zero, end) = (axis.at(0.0), axis.at(row.estimate));
            self.bar(zero.min(end), middle, (end - zero).abs());
            if let Some(noise) = &row.noise {
                self.noise(axis.at(noise.low), axis.at(noise.high), middle);
            }
            if row.stderr > 0.0 || row.low < row.high {
                self.total(axis.at(row.low), axis.at(row.high), middle);
            }
            let end = WIDTH - MARGIN;
            self.put(end, middle + 4.5, "font-size=\"13\" text-anchor=\"end\"", value);
            from += height(label);
        }
        let zero = axis.at(0.0);
        self.line("zero", 1.0, (zero, top), (zero, bottom));
        self.y = bottom + 8.0;
    }

    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.body.write_fmt(element);
    }

    fn finish(self, title: &str) -> String {
        let (title, body, height) = (escaped(title), self.body, self.y + MARGIN);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-labelledby=\"title\">\n\
             <title id=\"title\">{title}</title>\n<style>{STYLE}</style>\n\
             <rect class=\"ground\" width=\"100%\" height=\"100%\"/>\n{body}</svg>\n"
        )
    }
}
