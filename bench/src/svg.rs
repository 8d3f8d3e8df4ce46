//! Plots with logarithmic axes, as SVG.
//!
//! plotters draws them. The marks of the axes are chosen here: those of its own logarithmic axes are whole powers or nine to a decade, and the
//! ends of an axis need not be among them.

use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::combinators::{BindKeyPoints as _, IntoLogRange as _};
use plotters::element::{ComposedElement, DashedPathElement, EmptyElement, PathElement, Polygon, Text};
use plotters::prelude::{
    ChartBuilder, Color as _, DashedLineSeries, DrawingArea, DrawingBackend, IntoDrawingArea as _,
    IntoTextStyle as _, RGBColor, SVGBackend,
};
use plotters::style::WHITE;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::failure::Failure;
use crate::sample::Spread;

const WIDTH: u32 = 720;
/// Heights from above to below.
const HEIGHTS: Heights = Heights { title: 36, field: 416, name: 18, margin: 8 };
/// Below the field and left of it stand marks, and what the axis counts.
const LABELS: (u32, u32) = (50, 60);
const FONT: (&str, u32) = ("sans-serif", 15);

/// The colour of gpufs, in every plot.
const OURS: RGBColor = RGBColor(0x0b, 0x6e, 0x4f);
/// The colours of rivals: none is a green.
const RIVALS: [RGBColor; 7] = [
    RGBColor(0xc1, 0x12, 0x1f),
    RGBColor(0x1d, 0x4e, 0x89),
    RGBColor(0xe0, 0x9f, 0x3e),
    RGBColor(0x6a, 0x4c, 0x93),
    RGBColor(0x8d, 0x6a, 0x4a),
    RGBColor(0x55, 0x55, 0x55),
    RGBColor(0xd1, 0x6b, 0xa5),
];

/// Axes, and the lines at their marks.
const GREY: RGBColor = RGBColor(0x88, 0x88, 0x88);
const PALE: RGBColor = RGBColor(0xe5, 0xe5, 0xe5);
/// Dashes and the gaps after them: gpufs's first line and all rivals' have no gaps.
const DASHES: [(u32, u32); 4] = [(WIDTH, 0), (16, 6), (7, 5), (3, 5)];

struct Heights {
    title: u32,
    /// With what stands below its horizontal axis.
    field: u32,
    /// Of each line's name.
    name: u32,
    /// Above and below the names.
    margin: u32,
}

/// x, lowest, median, highest.
type Point = (f64, f64, f64, f64);

struct Line {
    name: String,
    ours: bool,
    points: Vec<Point>,
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

    /// The plot as an SVG document. The same points make the same document.
    ///
    /// # Errors
    /// plotters refuses what it is given.
    pub(crate) fn draw(&self) -> Result<String, Failure> {
        let names = HEIGHTS.name * self.lines.len() as u32 + 2 * HEIGHTS.margin;
        let mut text = String::new();
        let size = (WIDTH, HEIGHTS.title + HEIGHTS.field + names);
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        root.fill(&WHITE)?;
        root.draw(&Text::new(self.title.as_str(), (12, 10), (FONT.0, 19)))?;
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let x_axis = Axis::over(points().map(|point| point.0), 2.0);
        let y_axis = Axis::over(points().flat_map(|point| [point.1, point.3]), 10.0);
        let mut chart = ChartBuilder::on(&root.margin(HEIGHTS.title, names, 12, 20))
            .x_label_area_size(LABELS.0)
            .y_label_area_size(LABELS.1)
            .build_cartesian_2d(
                x_axis.range().log_scale().with_key_points(x_axis.marks().collect()),
                y_axis.range().log_scale().with_key_points(y_axis.marks().collect()),
            )?;
        chart
            .configure_mesh()
            .axis_style(GREY)
            .bold_line_style(PALE)
            .label_style(FONT)
            .x_label_formatter(&|mark| engineering(*mark))
            // A mark is no more exact than its power, and has no figures beyond its first.
            .y_label_formatter(&|mark| ((mark * 1e6).round() / 1e6).to_string())
            .x_desc(&self.axes.0)
            .y_desc(format!("{}: medians, lowest to highest", self.axes.1))
            .draw()?;
        for (line, Look { colour, width, dashes: (dash, gap), number }) in self.looks() {
            let whisker = |&(x, low, _, high): &Point| PathElement::new([(x, low), (x, high)], colour);
            chart.draw_series(line.points.iter().map(whisker))?;
            let medians = line.points.iter().map(|&(x, _, median, _)| (x, median));
            let style = colour.stroke_width(width);
            chart.draw_series(DashedLineSeries::new(medians.clone(), dash, gap, style))?;
            chart.draw_series(medians.map(|median| mark(median, number, colour)))?;
        }
        self.draw_names(&root)?;
        root.present()?;
        drop((chart, root));
        Ok(text)
    }

    /// What each line is, below the field: plotters puts names over the field, where long ones would hide lines.
    fn draw_names(&self, root: &DrawingArea<SVGBackend<'_>, Shift>) -> Result<(), Failure> {
        let style = FONT.into_text_style(root).pos(Pos::new(HPos::Left, VPos::Center));
        let above = HEIGHTS.title + HEIGHTS.field + HEIGHTS.margin;
        let (left, mut y) = (LABELS.1 as i32, (above + HEIGHTS.name / 2) as i32);
        for (line, Look { colour, width, dashes: (dash, gap), number }) in self.looks() {
            let ends = [(left, y), (left + 50, y)].into_iter();
            root.draw(&DashedPathElement::new(ends, dash, gap, colour.stroke_width(width)))?;
            root.draw(&mark((left + 25, y), number, colour))?;
            root.draw(&Text::new(line.name.as_str(), (left + 60, y), style.clone()))?;
            y += HEIGHTS.name as i32;
        }
        Ok(())
    }

    /// The lines, each with its looks. gpufs's are wide and come first, so that a rival's on top of one does not hide it.
    fn looks(&self) -> impl Iterator<Item = (&Line, Look)> {
        let ours = self.lines.iter().filter(|line| line.ours).enumerate().map(|(number, line)| {
            (line, Look { number, colour: OURS, width: 4, dashes: DASHES[number % DASHES.len()] })
        });
        let rivals = self.lines.iter().filter(|line| !line.ours).enumerate().map(|(number, line)| {
            (line, Look { number, colour: RIVALS[number % RIVALS.len()], width: 2, dashes: DASHES[0] })
        });
        ours.chain(rivals)
    }
}

/// How a line is told from others.
struct Look {
    /// Its number among gpufs's, or among rivals'.
    number: usize,
    colour: RGBColor,
    width: u32,
    /// The length of a dash and of the gap after it.
    dashes: (u32, u32),
}

/// What stands at the points of a line.
type Mark<At, DB> = ComposedElement<At, DB, Polygon<(i32, i32)>, PathElement<(i32, i32)>>;

/// Corners of marks, from the first to the first. The first shape is nearly round.
const SHAPES: [&[(i32, i32)]; 4] = [
    &[(-1, -3), (1, -3), (3, -1), (3, 1), (1, 3), (-1, 3), (-3, 1), (-3, -1), (-1, -3)],
    &[(-3, -3), (3, -3), (3, 3), (-3, 3), (-3, -3)],
    &[(0, -4), (4, 3), (-4, 3), (0, -4)],
    &[(0, -5), (5, 0), (0, 5), (-5, 0), (0, -5)],
];

/// The mark of a line with this number: each shape full, then each empty.
fn mark<At, DB: DrawingBackend>(at: At, number: usize, colour: RGBColor) -> Mark<At, DB> {
    let shape = SHAPES[number % SHAPES.len()];
    let within = if (number / SHAPES.len()).is_multiple_of(2) { colour } else { WHITE };
    EmptyElement::at(at)
        + Polygon::new(shape, within.filled())
        + PathElement::new(shape, colour.stroke_width(2))
}

/// A logarithmic axis.
struct Axis {
    /// Marks from one end to the other.
    marks: Vec<f64>,
}

impl Axis {
    /// Marks that there is room for.
    const MOST: usize = 13;

    /// One over whole powers of its base; of 10 over their doubles and fivefolds too, where there is room for them.
    fn over(values: impl Iterator<Item = f64>, base: f64) -> Self {
        let (low, high) = values
            .fold((f64::MAX, f64::MIN_POSITIVE), |(low, high), value| (low.min(value), high.max(value)));
        let fine = (base - 10.0).abs() < 0.5;
        let marks = if fine { Self::between(low, high, base, &[1.0, 2.0, 5.0]) } else { Vec::new() };
        let fits = (2..=Self::MOST).contains(&marks.len());
        Self { marks: if fits { marks } else { Self::between(low, high, base, &[1.0]) } }
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
    fn range(&self) -> Range<f64> {
        self.marks[0]..self.marks[self.marks.len() - 1]
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

#[cfg(test)]
mod tests {
    use roxmltree::{Document, Node};

    use super::{Axis, Plot};
    use crate::sample::Spread;

    #[test]
    fn an_axis_begins_and_ends_at_marks() {
        let marks = |low, high, base| Axis::over([low, high].into_iter(), base).marks;
        assert_eq!(marks(0.3, 40.0, 10.0), [0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0]);
        assert_eq!(marks(1.0, 8.0, 2.0), [1.0, 2.0, 4.0, 8.0]);
        assert_eq!(marks(3.0, 3.0, 10.0), [2.0, 5.0]);
        assert_eq!(marks(4.0, 4.0, 2.0), [4.0, 8.0]);
        assert_eq!(marks(0.5, 90_000.0, 10.0).len(), 7);
    }

    /// A plot of four lines of gpufs's and five of rivals', from 64 to 64K and from 0.5 to 40.
    fn made_up() -> String {
        let mut plot = Plot::new("a < b & c");
        plot.label("bytes of a request", "GB/s");
        for number in 0..9 {
            for x in [64.0, 1024.0, 65536.0] {
                let ours = number % 2 == 1;
                let median = f64::from(number + 1);
                let name = format!("{} line {number}", if ours { "gpufs:" } else { "CPU:" });
                plot.add(&name, ours, x, &Spread::of(vec![median / 2.0, median, 4.0 * median]));
            }
        }
        plot.draw().expect("a plot")
    }

    fn coordinate(node: Node<'_, '_>, name: &str) -> f64 {
        node.attribute(name).unwrap_or_default().parse().unwrap_or_else(|_| panic!("{name} of {node:?}"))
    }

    #[test]
    fn a_plot_is_xml_with_its_title_axes_marks_and_names() {
        let text = made_up();
        let document = Document::parse(&text).expect("XML");
        let svg = document.root_element();
        assert_eq!(svg.tag_name().name(), "svg");
        let (width, height) = (coordinate(svg, "width"), coordinate(svg, "height"));
        let texts = || document.descendants().filter(|node| node.has_tag_name("text"));
        let said = |node: Node<'_, '_>| node.text().unwrap_or_default().trim().to_owned();
        let names =
            (0..9).map(|number| format!("{} line {number}", if number % 2 == 1 { "gpufs:" } else { "CPU:" }));
        let wanted = [
            "a < b & c",
            "bytes of a request",
            "GB/s: medians, lowest to highest",
            "64",
            "1K",
            "64K",
            "0.5",
            "50",
        ];
        for wanted in wanted.into_iter().map(str::to_owned).chain(names) {
            let found: Vec<Node<'_, '_>> = texts().filter(|node| said(*node) == wanted).collect();
            let [one] = found[..] else { panic!("'{wanted}' stands {} times", found.len()) };
            assert!(coordinate(one, "x") < width && coordinate(one, "y") + 8.0 < height, "{one:?}");
        }
        // No two texts that begin at the same place on the left touch.
        let mut rows: Vec<(i64, i64)> = texts()
            .filter(|node| node.attribute("transform").is_none())
            .map(|node| (coordinate(node, "x") as i64, coordinate(node, "y") as i64))
            .collect();
        rows.sort_unstable();
        assert!(
            rows.windows(2).all(|pair| pair[0].0 != pair[1].0 || pair[1].1 - pair[0].1 >= 15),
            "{rows:?}"
        );
    }

    #[test]
    fn the_colour_of_gpufs_is_that_of_no_rival() {
        let text = made_up();
        let document = Document::parse(&text).expect("XML");
        // The mark before a name has the colour of its line.
        let mut colour = String::new();
        let mut seen = Vec::new();
        for node in document.descendants().filter(Node::is_element) {
            match node.text().map(str::trim) {
                Some(name) if name.contains("line ") => seen.push((name.contains("gpufs"), colour.clone())),
                _ => colour = node.attribute("stroke").map_or(colour, str::to_owned),
            }
        }
        assert_eq!(seen.len(), 9, "{seen:?}");
        let mut rivals = Vec::new();
        for (ours, colour) in seen {
            assert_eq!(ours, colour == "#0B6E4F", "{colour}");
            assert!(ours || !rivals.contains(&colour), "{colour} twice");
            rivals.push(colour);
        }
    }

    #[test]
    fn the_same_points_make_the_same_document() {
        assert_eq!(made_up(), made_up());
    }
}
