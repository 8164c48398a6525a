//! The report as one HTML file with charts, without scripts. It follows the reader's theme.

use std::fmt::Write as _;

use sotto_client::query_result::text::escaped;

use super::report::{Bucket, Found, Report, short};
use crate::recipe::words::grouped;
use crate::svg_chart::{Axis, Chart, Look, Point, Scale, Series, svg};

/// How many of the largest numbers have bars.
const BARS: usize = 15;

const STYLE: &str = "\
:root{color-scheme:light dark;--ground:#fff;--text:#1b1b1b;--muted:#595959;--line:#d4d4d4;\
--truth:#8a8a8a;--estimate:#0072b2}\
@media(prefers-color-scheme:dark){:root{--ground:#16191d;--text:#f2f2f2;--muted:#b0b0b0;\
--line:#42474e;--truth:#8f959c;--estimate:#56b4e9}}\
body{font:16px/1.5 system-ui,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;background:var(--ground);\
color:var(--text);max-width:48rem;margin:2rem auto;padding:0 1rem}\
h1{font-size:1.5rem}h2{font-size:1.2rem;margin-top:2.5rem}p.muted,caption{color:var(--muted)}\
.wide{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}\
caption{text-align:left;padding:.4rem 0}\
td,th{padding:.2rem .8rem .2rem 0;border-bottom:1px solid var(--line);text-align:right;\
white-space:nowrap;font-weight:400}\
thead th{color:var(--muted);font-size:.85rem;vertical-align:bottom;white-space:normal}\
td:first-child,th:first-child{text-align:left}\
td.bars{width:14rem;min-width:8rem}.bar{display:block;height:.5rem;margin:.1rem 0;min-width:1px}\
.truth{background:var(--truth)}.estimate{background:var(--estimate)}\
.key{display:inline-block;width:.8rem;height:.8rem;margin:0 .3rem 0 .6rem}\
svg{display:block;width:100%;min-width:36rem;height:auto;margin:1rem 0}";

/// The page.
pub(super) fn html(report: &Report) -> String {
    let mut page = Page { text: String::new(), charts: 0 };
    let (name, runs) = (&report.name, report.experiments.first().map_or(0, |one| one.runs.len()));
    let how = if report.pipeline { "through the whole system" } else { "in memory" };
    let title = format!("Fleet: {name}");
    page.add(format_args!("<h1>{}</h1>\n", escaped(&title)));
    page.prose(&format!(
        "{} devices, asked {runs} times {how}, seed {}. The error is the mean, over all numbers that \
         are compared, of the squared difference from the truth about all devices.",
        grouped(report.population),
        report.seed
    ));
    page.errors(&report.experiments);
    if runs > 1 && report.experiments.len() > 1 {
        page.chart(&compared(&report.experiments));
    }
    for found in &report.experiments {
        page.add(format_args!("<h2>{}</h2>\n", escaped(&found.label)));
        page.prose(&found.facts());
        if found.buckets.len() > 1 {
            page.bars(&found.buckets);
            page.chart(&largest(found));
        }
        if runs > 1 {
            page.chart(&over_runs(found));
        }
    }
    let seconds = format!("{:.1} s. No scripts, and nothing is loaded.", report.elapsed_s);
    page.add(format_args!("<p class=\"muted\">{seconds}</p>\n"));
    let (title, body) = (escaped(&title), page.text);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
    )
}

/// The body so far.
struct Page {
    text: String,
    charts: usize,
}

impl Page {
    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.text.write_fmt(element);
    }

    fn prose(&mut self, text: &str) {
        self.add(format_args!("<p>{}</p>\n", escaped(text)));
    }

    /// Names must be unique in a page.
    fn chart(&mut self, chart: &Chart) {
        self.charts += 1;
        let (charts, drawn) = (self.charts, svg(chart));
        let drawn = drawn.replacen("labelledby=\"title\"", &format!("labelledby=\"c{charts}\""), 1);
        let drawn = drawn.replacen("id=\"title\"", &format!("id=\"c{charts}\""), 1);
        // On a narrow screen it is scrolled: its text would be too small.
        self.add(format_args!("<div class=\"wide\">{drawn}</div>\n"));
    }

    fn errors(&mut self, all: &[Found]) {
        self.add(format_args!(
            "<div class=\"wide\"><table>\n<caption>Mean squared error</caption>\n<thead><tr><th></th>\
             <th>measured</th><th>predicted</th><th>ratio</th></tr></thead>\n<tbody>\n"
        ));
        for found in all {
            for (name, measured) in found.errors() {
                let name = match name {
                    "this mechanism" => found.label.clone(),
                    other => format!("\u{2003}{other}"),
                };
                self.add(format_args!(
                    "<tr><th>{}</th><td>{}</td><td>{}</td><td>{:.3}</td></tr>\n",
                    escaped(&name),
                    measured.words(),
                    short(measured.predicted),
                    measured.ratio()
                ));
            }
        }
        self.add(format_args!("</tbody></table></div>\n"));
    }

    fn bars(&mut self, buckets: &[Bucket]) {
        let shown = buckets.get(..BARS).unwrap_or(buckets);
        let ends = shown.iter().flat_map(|one| [one.r#true, one.estimate]);
        let most = ends.fold(f64::MIN_POSITIVE, f64::max);
        self.add(format_args!(
            "<p class=\"muted\">The largest numbers, in the first collection:\
             <span class=\"key truth\"></span>truth<span class=\"key estimate\"></span>estimate</p>\n\
             <div class=\"wide\"><table>\n<thead><tr><th></th><th></th><th>truth</th><th>estimate</th><th>±</th>\
             <th>exact sample</th><th>one party’s noise</th></tr></thead>\n<tbody>\n"
        ));
        for one in shown {
            let part = |value: f64| 100.0 * (value / most).clamp(0.0, 1.0);
            let central = one.central.map_or("-".to_owned(), short);
            self.add(format_args!(
                "<tr><th>{}</th><td class=\"bars\"><span class=\"bar truth\" style=\"width:{:.1}%\"></span>\
                 <span class=\"bar estimate\" style=\"width:{:.1}%\"></span></td><td>{}</td><td>{}</td>\
                 <td>{}</td><td>{}</td><td>{central}</td></tr>\n",
                escaped(&one.label),
                part(one.r#true),
                part(one.estimate),
                short(one.r#true),
                short(one.estimate),
                short(one.stderr),
                short(one.exact),
            ));
        }
        self.add(format_args!("</tbody></table></div>\n"));
    }
}

fn axis(label: &str, scale: Scale) -> Axis {
    Axis { label: label.to_owned(), scale, holds: Vec::new() }
}

/// The largest numbers by rank: the truth as a line, and the estimates around it.
fn largest(found: &Found) -> Chart {
    let points = |of: &dyn Fn(&Bucket) -> Option<Point>| {
        let ranked = found.buckets.iter().zip(1..);
        ranked.filter_map(|(one, rank)| Some(Point { x: f64::from(rank), ..of(one)? })).collect()
    };
    let series = |name: &str, look, points| Series { name: name.to_owned(), points, look };
    let at = |y: f64| Point::new(0.0, y);
    let estimates = points(&|one| {
        let around = 1.96 * one.stderr;
        let bar = Some((one.estimate - around, one.estimate + around));
        Some(Point { bar, ..at(one.estimate) })
    });
    Chart {
        title: format!("The {} largest numbers: {}", found.buckets.len(), found.label),
        notes: vec!["Estimates of the first collection, with intervals of 95 %".to_owned()],
        x: axis("rank", Scale::Whole),
        y: axis("devices", Scale::Linear),
        series: vec![
            series("truth", Look::Line, points(&|one| Some(at(one.r#true)))),
            series("estimate", Look::Points, estimates),
            series("exact answers of the sample", Look::Points, points(&|one| Some(at(one.exact)))),
        ],
    }
}

/// The errors of all collections.
fn over_runs(found: &Found) -> Chart {
    let points = |of: &dyn Fn(&super::report::RunReport) -> f64| {
        let runs = found.runs.iter().zip(1..);
        runs.map(|(run, number)| Point::new(f64::from(number), of(run))).collect()
    };
    let predicted = points(&|_| found.squared_error.predicted);
    let series = |name: &str, points| Series { name: name.to_owned(), points, look: Look::Line };
    Chart {
        title: format!("Error in each collection: {}", found.label),
        notes: Vec::new(),
        x: axis("collection", Scale::Whole),
        y: Axis { holds: vec![0.0], ..axis("mean squared error", Scale::Linear) },
        series: vec![
            series("measured", points(&|run| run.measured)),
            series("as its estimates state", points(&|run| run.stated)),
            series("predicted", predicted),
        ],
    }
}

/// The mean error of each experiment, beside its prediction.
fn compared(all: &[Found]) -> Chart {
    let numbered = || all.iter().zip(1..).map(|(found, number)| (found, f64::from(number)));
    let names: Vec<String> = all
        .iter()
        .zip(1..)
        .map(|(found, number): (&Found, u32)| format!("{number}: {}", found.label))
        .collect();
    let measured = numbered().map(|(found, number)| {
        let around = 1.96 * found.squared_error.stderr.unwrap_or_default();
        let y = found.squared_error.measured;
        Point { bar: Some((y - around, y + around)), ..Point::new(number, y) }
    });
    let series = |name: &str, points| Series { name: name.to_owned(), points, look: Look::Points };
    let of = |value: fn(&Found) -> f64| {
        numbered().map(|(found, number)| Point::new(number, value(found))).collect()
    };
    Chart {
        title: "Error and prediction".to_owned(),
        notes: names,
        x: axis("experiment", Scale::Whole),
        y: axis("mean squared error", Scale::Log),
        series: vec![
            series("measured, with its interval of 95 %", measured.collect()),
            series("predicted", of(|found| found.squared_error.predicted)),
            series(
                "noise of one trusted party",
                of(|found| found.central.map_or(f64::NAN, |central| central.measured)),
            ),
            series("exact answers of the sample", of(|found| found.non_private.measured)),
        ],
    }
}
