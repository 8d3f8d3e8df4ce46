//! Plots with logarithmic axes, as SVG.

use std::fmt::Write as _;

use crate::sample::Spread;

const WIDTH: f64 = 720.0;
/// Left, right, top, bottom of the field. Below it stand what the horizontal axis counts, and what each line is.
const FIELD: (f64, f64, f64, f64) = (66.0, 700.0, 52.0, 392.0);
/// Between the field and the first line's name; between one name and the next.
const NAMES: (f64, f64) = (60.0, 18.0);
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
    /// What stands above it.
    pub(crate) fn name(&mut self, title: &str) {
        title.clone_into(&mut self.title);
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
        let height = bottom + NAMES.0 + NAMES.1 * self.lines.len() as f64;
        let mut text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#222222\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
             <text x=\"12\" y=\"20\" font-size=\"15\">{}</text>\n",
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
                // A mark is no more exact than its power, and has no figures beyond its first.
                (mark * 1e6).round() / 1e6
            );
        }
        let middle = f64::midpoint(left, right);
        let _ = writeln!(
            text,
            "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text><text x=\"12\" y=\"{}\">{}</text>",
            bottom + 36.0,
            escaped(&self.axes.0),
            top - 12.0,
            escaped(&format!("{}: medians, lowest to highest", self.axes.1))
        );
        for (number, line) in self.lines.iter().enumerate() {
            let colour = COLOURS[number % COLOURS.len()];
            let (dashes, width) = if line.ours { ("", 3) } else { (" stroke-dasharray=\"5 4\"", 2) };
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
                "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\"{dashes}/>"
            );
            let y = bottom + NAMES.0 + NAMES.1 * number as f64;
            let _ = writeln!(
                text,
                "<path d=\"M{left} {y}h26\" stroke=\"{colour}\" stroke-width=\"{width}\"{dashes}/><text x=\"{}\" y=\"{}\">{}</text>",
                left + 34.0,
                y + 4.0,
                escaped(&line.name)
            );
        }
        text.push_str("</svg>\n");
        text
    }
}

/// A logarithmic axis.
struct Axis {
    /// Marks from one end to the other.
    marks: Vec<f64>,
    /// Where the ends are.
    ends: (f64, f64),
}

impl Axis {
    /// Marks that there is room for.
    const MOST: usize = 13;

    /// One over whole powers of its base; of 10 over their doubles and fivefolds too, where there is room for them.
    fn over(values: impl Iterator<Item = f64>, base: f64, ends: (f64, f64)) -> Self {
        let (low, high) = values
            .fold((f64::MAX, f64::MIN_POSITIVE), |(low, high), value| (low.min(value), high.max(value)));
        let fine = (base - 10.0).abs() < 0.5;
        let marks = if fine { Self::between(low, high, base, &[1.0, 2.0, 5.0]) } else { Vec::new() };
        let fits = (2..=Self::MOST).contains(&marks.len());
        Self { marks: if fits { marks } else { Self::between(low, high, base, &[1.0]) }, ends }
    }
    /// Multiples of powers, from the last that is not above `low` to the first that is not below `high`.
    fn between(low: f64, high: f64, base: f64, factors: &[f64]) -> Vec<f64> {
        #[expect(clippy::cast_possible_truncation, reason = "small exponents")]
        let (first, last) = (low.log(base).floor() as i32, high.log(base).ceil() as i32);
        let all: Vec<f64> = (first - 1..=last + 1)
            .flat_map(|power| factors.iter().map(move |factor| factor * base.powi(power)))
            .collect();
        // Powers are not exact.
        let from = all.iter().rposition(|mark| *mark <= low * 1.0001).unwrap_or(0);
        let to = all.iter().position(|mark| *mark >= high * 0.9999).unwrap_or(all.len() - 1);
        all[from..=to.max(from + 1)].to_vec()
    }
    fn at(&self, value: f64) -> f64 {
        let (first, last) = (self.marks[0], self.marks[self.marks.len() - 1]);
        let share = (value / first).ln() / (last / first).ln();
        self.ends.0 + share * (self.ends.1 - self.ends.0)
    }
    fn marks(&self) -> impl Iterator<Item = f64> {
        self.marks.iter().copied().step_by(self.marks.len().div_ceil(Self::MOST))
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

#[cfg(test)]
mod tests {
    use super::{Axis, Plot};
    use crate::sample::Spread;

    #[test]
    fn an_axis_begins_and_ends_at_marks() {
        let marks = |low, high, base| Axis::over([low, high].into_iter(), base, (0.0, 1.0)).marks;
        assert_eq!(marks(0.3, 40.0, 10.0), [0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0]);
        assert_eq!(marks(1.0, 8.0, 2.0), [1.0, 2.0, 4.0, 8.0]);
        assert_eq!(marks(3.0, 3.0, 10.0), [2.0, 5.0]);
        assert_eq!(marks(4.0, 4.0, 2.0), [4.0, 8.0]);
        assert_eq!(marks(0.5, 90_000.0, 10.0).len(), 7);
    }

    #[test]
    fn every_line_is_named_within_the_frame() {
        let mut plot = Plot::new("a < b");
        plot.label("bytes", "GB/s");
        for number in 0..9 {
            for x in [1.0, 2.0] {
                plot.add(&format!("line {number}"), number == 0, x, &Spread::of(vec![1.0, 2.0]));
            }
        }
        let text = plot.draw();
        assert!(text.contains("a &lt; b") && text.contains("fill=\"#ffffff\""));
        let height: f64 =
            text.split("viewBox=\"0 0 720 ").nth(1).unwrap().split('"').next().unwrap().parse().unwrap();
        for number in 0..9 {
            let line = text.lines().find(|line| line.contains(&format!(">line {number}<"))).unwrap();
            let y: f64 = line.rsplit("y=\"").next().unwrap().split('"').next().unwrap().parse().unwrap();
            assert!(y < height, "{line}");
        }
    }
}
