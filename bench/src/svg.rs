//! Plots with logarithmic axes, as SVG.

use std::fmt::Write as _;

use crate::report::short;
use crate::sample::Spread;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 440.0;
/// Left, right, top, bottom of the field.
const FIELD: (f64, f64, f64, f64) = (70.0, 470.0, 40.0, 390.0);
const COLOURS: [&str; 8] =
    ["#0b6e4f", "#c1121f", "#1d4e89", "#e09f3e", "#6a4c93", "#2a9d8f", "#8d6a4a", "#555555"];

struct Line {
    name: String,
    ours: bool,
    /// x, lowest, median, highest.
    points: Vec<(f64, f64, f64, f64)>,
}

/// One plot.
pub(crate) struct Plot {
    title: String,
    axes: (String, String),
    lines: Vec<Line>,
}

impl Plot {
    pub(crate) fn new(title: &str) -> Self {
        Self { title: title.to_owned(), axes: (String::new(), String::new()), lines: Vec::new() }
    }
    /// What the axes count.
    pub(crate) fn label(&mut self, x: &str, y: &str) {
        self.axes = (x.to_owned(), y.to_owned());
    }
    pub(crate) fn add(&mut self, line: &str, ours: bool, x: f64, spread: &Spread) {
        let point = (x, spread.lowest(), spread.median(), spread.highest());
        if !(point.1 > 0.0 && x > 0.0) {
            // There is no place for it on a logarithmic axis.
            return;
        }
        match self.lines.iter_mut().find(|known| known.name == line) {
            Some(known) => known.points.push(point),
            None => self.lines.push(Line { name: line.to_owned(), ours, points: vec![point] }),
        }
    }
    /// Whether some line has two places.
    pub(crate) fn is_worth_drawing(&self) -> bool {
        self.lines.iter().any(|line| line.points.len() > 1)
    }

    pub(crate) fn draw(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let (left, right, top, bottom) = FIELD;
        let x_axis = Axis::over(points().map(|point| point.0), 2.0, (left, right));
        let y_axis = Axis::over(points().flat_map(|point| [point.1, point.3]), 10.0, (bottom, top));
        let mut text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
             <text x=\"{left}\" y=\"22\" font-size=\"15\">{}</text>\n",
            escaped(&self.title)
        );
        for mark in x_axis.marks() {
            let x = x_axis.at(mark);
            let _ = writeln!(
                text,
                "<path d=\"M{x:.1} {top}V{bottom}\" stroke=\"#e5e5e5\"/><text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                bottom + 16.0,
                engineering(mark)
            );
        }
        for mark in y_axis.marks() {
            let y = y_axis.at(mark);
            let _ = writeln!(
                text,
                "<path d=\"M{left} {y:.1}H{right}\" stroke=\"#e5e5e5\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                left - 6.0,
                y + 4.0,
                short(mark)
            );
        }
        let middle = f64::midpoint(left, right);
        let _ = writeln!(
            text,
            "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text><text x=\"{left}\" y=\"36\" text-anchor=\"end\">{}</text>",
            bottom + 36.0,
            escaped(&self.axes.0),
            escaped(&self.axes.1)
        );
        for (number, line) in self.lines.iter().enumerate() {
            let colour = COLOURS[number % COLOURS.len()];
            let dashes = if line.ours { "" } else { " stroke-dasharray=\"5 4\"" };
            let mut path = String::new();
            for (place, &(x, low, median, high)) in line.points.iter().enumerate() {
                let (x, y) = (x_axis.at(x), y_axis.at(median));
                let _ = write!(path, "{}{x:.1} {y:.1}", if place == 0 { 'M' } else { 'L' });
                let (low, high) = (y_axis.at(low), y_axis.at(high));
                let _ = writeln!(
                    text,
                    "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/><path d=\"M{x:.1} {low:.1}V{high:.1}\" stroke=\"{colour}\"/>"
                );
            }
            let _ = writeln!(
                text,
                "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dashes}/>"
            );
            let y = top + 12.0 + 18.0 * number as f64;
            let _ = writeln!(
                text,
                "<path d=\"M{} {y}h22\" stroke=\"{colour}\" stroke-width=\"2\"{dashes}/><text x=\"{}\" y=\"{}\" font-size=\"11\">{}</text>",
                right + 8.0,
                right + 34.0,
                y + 4.0,
                escaped(&line.name)
            );
        }
        text.push_str("</svg>\n");
        text
    }
}

/// A logarithmic axis over whole powers of its base.
struct Axis {
    base: f64,
    /// Exponents of its ends.
    powers: (f64, f64),
    /// Where the ends are.
    ends: (f64, f64),
}

impl Axis {
    fn over(values: impl Iterator<Item = f64>, base: f64, ends: (f64, f64)) -> Self {
        let (low, high) = values
            .fold((f64::MAX, f64::MIN_POSITIVE), |(low, high), value| (low.min(value), high.max(value)));
        let powers = (low.log(base).floor(), high.log(base).ceil());
        let powers = if powers.0 < powers.1 { powers } else { (powers.0, powers.0 + 1.0) };
        Self { base, powers, ends }
    }
    fn at(&self, value: f64) -> f64 {
        let share = (value.log(self.base) - self.powers.0) / (self.powers.1 - self.powers.0);
        self.ends.0 + share * (self.ends.1 - self.ends.0)
    }
    /// At most about ten, at powers of the base.
    fn marks(&self) -> impl Iterator<Item = f64> {
        #[allow(clippy::cast_possible_truncation, reason = "small exponents")]
        let (first, last) = (self.powers.0 as i32, self.powers.1 as i32);
        let step = ((last - first) / 8 + 1).unsigned_abs() as usize;
        let base = self.base;
        (first..=last).step_by(step).map(move |power| base.powi(power))
    }
}

/// 65536 as `64K`.
fn engineering(value: f64) -> String {
    match value {
        _ if value >= 1_048_576.0 => format!("{}M", value / 1_048_576.0),
        _ if value >= 1024.0 => format!("{}K", value / 1024.0),
        _ => format!("{value}"),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
