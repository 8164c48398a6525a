//! Charts of series as SVG: what commands draw that is no single result.
//!
//! As in `QueryResult::to_svg`, no text is measured: widths are upper bounds. Series differ by
//! colour (of Okabe and Ito) and by shape, and the colours follow the reader's theme. The legend
//! and the names of the axes have lines of their own, so that they never overlap the plot.

mod scale;

use std::fmt::Write;

use sotto_client::query_result::text::{escaped, width, wrapped};

use self::scale::Placed;

/// What is drawn.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chart {
    pub(crate) title: String,
    /// What a reader must know, below the title.
    pub(crate) notes: Vec<String>,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) series: Vec<Series>,
}

/// An axis holds all points.
#[derive(Clone, Debug, Default)]
pub(crate) struct Axis {
    /// With the unit, if there is one.
    pub(crate) label: String,
    pub(crate) scale: Scale,
    /// What it holds besides the points.
    pub(crate) holds: Vec<f64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Scale {
    #[default]
    Linear,
    /// Of things that are counted, with room around them: whole numbers are written, and no others.
    Whole,
    /// Shows positive values only.
    Log,
}

/// What has one name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) points: Vec<Point>,
    pub(crate) look: Look,
}

/// How the points of a series are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Look {
    /// Joined by lines.
    #[default]
    Line,
    /// For themselves.
    Points,
}

/// A point that is not finite, or that its axis cannot show, is a gap.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
    /// A vertical bar from here to there.
    pub(crate) bar: Option<(f64, f64)>,
    /// A part of a band around the series, from here to there.
    pub(crate) band: Option<(f64, f64)>,
}

impl Point {
    pub(crate) fn new(x: f64, y: f64) -> Self {
        Self { x, y, ..Self::default() }
    }
}

/// All lengths are in pixels.
const WIDTH: f64 = 760.0;
const MARGIN: f64 = 24.0;
const INNER: f64 = WIDTH - 2.0 * MARGIN;
const PLOT: f64 = 360.0;
const LINE: f64 = 18.0;
const TEXT: f64 = 13.0;
const TITLE: f64 = 17.0;
const SMALL: f64 = 11.0;
/// A piece of a line in the legend, and the space to its name.
const SAMPLE: f64 = 38.0;
/// Between two entries of the legend.
const APART: f64 = 18.0;
/// A series of more points has marks at some of them only.
const MOST_MARKS: usize = 24;
const COLOURS: usize = 7;
/// How far marks reach.
const MARK_SIZE: f64 = 7.0;

const STYLE: &str = "\
:root{color-scheme:light dark}\
text{font-family:system-ui,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;fill:#1b1b1b}\
.ground{fill:#fff}.muted{fill:#595959}.grid{stroke:#d4d4d4}.minor{stroke:#ededed;fill:none}\
.frame{stroke:#595959;fill:none}.open{fill:#fff}\
.c0{color:#0072b2}.c1{color:#d55e00}.c2{color:#009e73}.c3{color:#cc79a7}.c4{color:#e69f00}\
.c5{color:#56b4e9}.c6{color:#1b1b1b}\
@media(prefers-color-scheme:dark){text{fill:#f2f2f2}.ground,.open{fill:#16191d}\
.muted{fill:#b0b0b0}.grid{stroke:#42474e}.minor{stroke:#282c31}.frame{stroke:#b0b0b0}\
.c0{color:#56b4e9}.c1{color:#e69f00}.c4{color:#f0e442}.c5{color:#d55e00}.c6{color:#f2f2f2}}";

/// Marks, as paths around (0, 0). The open ones are larger: one of each may lie on the same point.
const MARKS: [(&str, bool); 8] = [
    ("M-3.5,0a3.5,3.5 0 1 0 7,0a3.5,3.5 0 1 0 -7,0z", false),
    ("M-5,-5h10v10h-10z", true),
    ("M0,-4.5l4.5,8h-9z", false),
    ("M0,-7l6,7l-6,7l-6,-7z", true),
    ("M-4,-4l8,8m0,-8l-8,8", false),
    ("M-7,-5h14l-7,11z", true),
    ("M-5,0h10m-5,-5v10", false),
    ("M-6,0a6,6 0 1 0 12,0a6,6 0 1 0 -12,0z", true),
];

/// The chart as the text of a file.
pub(crate) fn svg(chart: &Chart) -> String {
    let mut image = Image { body: String::new(), y: MARGIN - 8.0 };
    let title = format!("font-size=\"{TITLE}\" font-weight=\"600\"");
    for line in wrapped(&chart.title, INNER, TITLE) {
        image.text(TITLE + 6.0, &title, &line);
    }
    for line in chart.notes.iter().flat_map(|note| wrapped(note, INNER, TEXT)) {
        image.text(LINE, "class=\"muted\" font-size=\"13\"", &line);
    }
    image.y += 6.0;
    image.legend(&chart.series);
    image.y += 8.0;
    for line in wrapped(&chart.y.label, INNER, TEXT) {
        image.text(LINE, "font-size=\"13\"", &line);
    }
    image.y += 14.0;
    image.plot(chart);
    for line in wrapped(&chart.x.label, INNER, TEXT) {
        image.y += LINE;
        let middle = "font-size=\"13\" text-anchor=\"middle\"";
        image.put((WIDTH / 2.0, image.y), middle, &escaped(&line));
    }
    image.finish(&chart.title)
}

/// The elements so far, and how far down they reach.
struct Image {
    body: String,
    y: f64,
}

impl Image {
    /// A line of text whose base is `down` below what there is.
    fn text(&mut self, down: f64, attributes: &str, text: &str) {
        self.y += down;
        self.put((MARGIN, self.y), attributes, &escaped(text));
    }

    /// The text is markup.
    fn put(&mut self, (x, y): (f64, f64), attributes: &str, text: &str) {
        self.add(format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" {attributes}>{text}</text>\n"));
    }

    fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        self.add(format_args!(
            "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>\n"
        ));
    }

    /// As many entries in a line as fit. A series without a name has none.
    fn legend(&mut self, series: &[Series]) {
        let (mut x, mut is_first) = (MARGIN, true);
        for (index, one) in series.iter().enumerate().filter(|(_, one)| !one.name.is_empty()) {
            let lines = wrapped(&one.name, INNER - SAMPLE, TEXT);
            let widest = lines.iter().map(|line| width(line, TEXT)).fold(0.0, f64::max);
            if is_first || x + SAMPLE + widest > WIDTH - MARGIN || lines.len() > 1 {
                (x, is_first) = (MARGIN, false);
                self.y += LINE + 2.0;
            }
            let y = self.y - 4.5;
            self.begin(index);
            if one.look == Look::Line {
                self.line("", (x, y), (x + 30.0, y));
            }
            self.mark(index, (x + 15.0, y));
            self.end();
            for (at, line) in lines.iter().enumerate() {
                self.y += if at > 0 { LINE } else { 0.0 };
                self.put((x + SAMPLE, self.y), "font-size=\"13\"", &escaped(line));
            }
            // Nothing follows an entry of several lines on its last one.
            x += if lines.len() > 1 { INNER } else { SAMPLE + widest + APART };
        }
    }

    fn plot(&mut self, chart: &Chart) {
        let values = |of: fn(&Point) -> Vec<f64>| {
            chart.series.iter().flat_map(move |one| one.points.iter().flat_map(of))
        };
        let (top, bottom) = (self.y, self.y + PLOT);
        let ys = |point: &Point| {
            let ends = [point.bar, point.band].into_iter().flatten();
            ends.flat_map(|(low, high)| [low, high]).chain([point.y]).collect()
        };
        let mut y = Placed::new(&chart.y, values(ys), (bottom, top));
        let labels = y.ticks.iter().map(|tick| tick.width).fold(0.0, f64::max);
        let (left, right) = (MARGIN + labels + 12.0, WIDTH - MARGIN - 4.0);
        let mut x = Placed::new(&chart.x, values(|point| vec![point.x]), (left, right));
        let down = x.minor().into_iter().map(|at| format!("M{at:.1},{top:.1}V{bottom:.1}"));
        let across = y.minor().into_iter().map(|at| format!("M{left:.1},{at:.1}H{right:.1}"));
        let minor = down.chain(across).collect::<String>();
        self.add(format_args!("<path class=\"minor\" d=\"{minor}\"/>\n"));
        y.thin(|_| SMALL + 2.0);
        x.thin(|tick| tick.width + 8.0);
        for tick in &x.ticks {
            self.line("grid", (tick.place, top), (tick.place, bottom));
            // The last number stays within the image.
            let at = tick.place.min(WIDTH - tick.width / 2.0 - 2.0);
            let middle = "class=\"muted\" font-size=\"11\" text-anchor=\"middle\"";
            self.put((at, bottom + MARK_SIZE + SMALL + 2.0), middle, &tick.text);
        }
        for tick in &y.ticks {
            self.line("grid", (left, tick.place), (right, tick.place));
            let end = "class=\"muted\" font-size=\"11\" text-anchor=\"end\"";
            self.put((left - 10.0, tick.place + 4.0), end, &tick.text);
        }
        let across = right - left;
        self.add(format_args!(
            "<rect class=\"frame\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{across:.1}\" height=\"{PLOT}\"/>\n"
        ));
        for (index, one) in chart.series.iter().enumerate() {
            self.begin(index);
            self.series(index, one, &x, &y);
            self.end();
        }
        self.y = bottom + 26.0;
    }

    fn series(&mut self, index: usize, series: &Series, x: &Placed, y: &Placed) {
        let at = |point: &Point, value: f64| Some((x.at(point.x)?, y.at(value)?));
        let places: Vec<_> = series.points.iter().map(|point| at(point, point.y)).collect();
        let band = series.points.iter().filter_map(|point| {
            let (low, high) = point.band?;
            Some((at(point, low)?, at(point, high)?))
        });
        let (mut low, high): (Vec<_>, Vec<_>) = band.unzip();
        low.reverse();
        let around = joined([high, low].concat());
        if !around.is_empty() {
            self.add(format_args!(
                "<polygon fill=\"currentColor\" fill-opacity=\"0.18\" stroke=\"none\" points=\"{around}\"/>\n"
            ));
        }
        for part in places.split(|place| place.is_none()).filter(|_| series.look == Look::Line) {
            let points = joined(part.iter().flatten().copied());
            self.add(format_args!("<polyline fill=\"none\" points=\"{points}\"/>\n"));
        }
        for point in &series.points {
            let ends = point.bar.and_then(|(low, high)| Some((at(point, low)?, at(point, high)?)));
            let Some((low, high)) = ends else { continue };
            self.line("", low, high);
            for (x, y) in [low, high] {
                self.line("", (x - 4.0, y), (x + 4.0, y));
            }
        }
        let step = places.len().div_ceil(MOST_MARKS).max(1);
        for place in places.into_iter().step_by(step).flatten() {
            self.mark(index, place);
        }
    }

    fn mark(&mut self, index: usize, (x, y): (f64, f64)) {
        let (path, is_open) = MARKS[index % MARKS.len()];
        let fill =
            if is_open { "class=\"open\" fill-opacity=\"0\"" } else { "fill=\"currentColor\"" };
        self.add(format_args!(
            "<path {fill} transform=\"translate({x:.1} {y:.1})\" d=\"{path}\"/>\n"
        ));
    }

    fn begin(&mut self, index: usize) {
        let colour = index % COLOURS;
        self.add(format_args!(
            "<g class=\"c{colour}\" stroke=\"currentColor\" stroke-width=\"1.8\">\n"
        ));
    }

    fn end(&mut self) {
        self.add(format_args!("</g>\n"));
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

/// As the points of a polygon.
fn joined(points: impl IntoIterator<Item = (f64, f64)>) -> String {
    let points = points.into_iter().map(|(x, y)| format!("{x:.1},{y:.1}"));
    points.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(scale: Scale) -> Chart {
        let axis = |label: &str| Axis { label: label.to_owned(), scale, holds: Vec::new() };
        let points = [(1.0, 0.5), (10.0, f64::NAN), (100.0, 0.0), (1e3, 2.0), (1e4, 3.0)];
        let one = Series {
            name: "A < B & C".to_owned(),
            points: points.map(|(x, y)| Point::new(x, y)).to_vec(),
            look: Look::Line,
        };
        let bar = Point { bar: Some((1.0, 4.0)), band: Some((0.5, 5.0)), ..Point::new(20.0, 2.0) };
        let two = Series { name: "two".to_owned(), points: vec![bar], look: Look::Points };
        let title = "Error <over> reports".to_owned();
        Chart { title, x: axis("x"), y: axis("y"), series: vec![one, two], ..Chart::default() }
    }

    /// All numbers of an attribute.
    fn numbers(svg: &str, attribute: &str) -> Vec<f64> {
        let before = format!(" {attribute}=\"");
        let parts = svg.split(before.as_str()).skip(1);
        parts.filter_map(|part| part.split('"').next()?.parse().ok()).collect()
    }

    #[test]
    fn texts_are_escaped_and_what_cannot_be_shown_is_a_gap() {
        let svg = svg(&chart(Scale::Log));
        assert!(svg.contains("Error &lt;over&gt; reports") && svg.contains("A &lt; B &amp; C"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        // One mark for each point in the legend, and three and one in the plot.
        assert_eq!(svg.matches("translate(").count(), 2 + 3 + 1);
        assert_eq!(svg.matches("<polyline").count(), 3);
        assert_eq!(svg.matches("<polygon").count(), 1);
        // On a linear scale, zero is a point.
        assert_eq!(super::svg(&chart(Scale::Linear)).matches("translate(").count(), 2 + 4 + 1);
    }

    #[test]
    fn everything_is_inside_the_image() {
        for scale in [Scale::Linear, Scale::Whole, Scale::Log] {
            let mut chart = chart(scale);
            chart.series[0].name = "a long name of a series ".repeat(12);
            let more = vec![chart.series[1].clone(); 30];
            chart.series.extend(more);
            let svg = svg(&chart);
            let height = numbers(&svg, "height")[0];
            let within = |attribute: &str, most: f64| {
                let all = numbers(&svg, attribute);
                assert!(all.iter().all(|it| (0.0..=most).contains(it)), "{attribute}: {all:?}");
            };
            for attribute in ["x", "x1", "x2"] {
                within(attribute, WIDTH);
            }
            for attribute in ["y", "y1", "y2"] {
                within(attribute, height);
            }
        }
    }

    #[test]
    fn an_empty_chart_is_a_picture() {
        let svg = svg(&Chart::default());
        assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN"), "{svg}");
    }
}
