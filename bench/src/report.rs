//! What was measured and what was not, as a table, as JSON and as plots.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use comfy_table::{CellAlignment, ColumnConstraint, Table, Width, presets};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::sample::Spread;
use crate::svg;

/// Whose figure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// gpufs'.
    Ours,
    /// What else does the same, or the floor below it.
    Rival,
    /// A fact without a rival.
    Fact,
}

/// Where a figure stands in a plot.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// Which plot; its file's name, too.
    pub(crate) plot: String,
    /// What stands above it, where that is more.
    pub(crate) title: Option<String>,
    /// What the horizontal axis counts.
    pub(crate) axis: &'static str,
    /// Where on it.
    pub(crate) x: f64,
}

/// One figure.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    /// The subcommand.
    pub(crate) benchmark: &'static str,
    /// What is compared: figures of one case stand together.
    pub(crate) case: String,
    /// What was measured.
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) unit: &'static str,
    pub(crate) spread: Spread,
    pub(crate) place: Option<Place>,
}

/// What was not measured.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Skip {
    benchmark: String,
    name: String,
    reason: String,
}

/// What a target asks for: of the ratio, or, where there is no rival, of the figure.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    AtLeast(f64),
    AtMost(f64),
}

/// A line of the table of targets.
#[derive(Clone, Debug)]
pub(crate) struct Goal {
    /// Its row in the table of targets.
    pub(crate) row: u32,
    pub(crate) what: String,
    /// gpufs' figure, and what was measured.
    pub(crate) figure: (f64, String),
    pub(crate) unit: &'static str,
    pub(crate) rival: Option<(f64, String)>,
    /// `None`: said beside the targets.
    pub(crate) limit: Option<Limit>,
}

impl Goal {
    fn ratio(&self) -> Option<f64> {
        self.rival.as_ref().map(|rival| self.figure.0 / rival.0)
    }
    /// `None`: nothing was asked for.
    fn is_met(&self) -> Option<bool> {
        let value = self.ratio().unwrap_or(self.figure.0);
        self.limit.map(|limit| match limit {
            Limit::AtLeast(wanted) => value >= wanted,
            Limit::AtMost(wanted) => value <= wanted,
        })
    }
    fn target(&self) -> String {
        let times = if self.rival.is_some() { " ×" } else { "" };
        match self.limit {
            None => "–".to_owned(),
            Some(Limit::AtLeast(wanted)) => format!("≥ {wanted}{times}"),
            Some(Limit::AtMost(wanted)) => format!("≤ {wanted}{times}"),
        }
    }
    fn verdict(&self) -> &'static str {
        match self.is_met() {
            None => "–",
            Some(true) => "met",
            Some(false) => "missed",
        }
    }
    /// The cells of its line.
    fn cells(&self) -> [String; 7] {
        let (figure, way) = &self.figure;
        [
            self.row.to_string(),
            self.what.clone(),
            format!("{} {} ({way})", short(*figure), self.unit),
            self.rival.as_ref().map_or("–".to_owned(), |(rival, name)| {
                format!("{} {} ({name})", short(*rival), self.unit)
            }),
            self.ratio().map_or("–".to_owned(), short),
            self.target(),
            self.verdict().to_owned(),
        ]
    }
    /// The line, alone.
    pub(crate) fn line(&self) -> String {
        self.cells().join(" | ")
    }
}

/// Everything that a run found.
#[derive(Debug, Default)]
pub(crate) struct Report {
    figures: Vec<Figure>,
    goals: Vec<Goal>,
    skips: Vec<Skip>,
}

/// Whether less is better.
fn is_cost(unit: &str) -> bool {
    !unit.ends_with("/s")
}

impl Report {
    pub(crate) fn add(&mut self, figure: Figure) {
        self.figures.push(figure);
    }
    pub(crate) fn add_goal(&mut self, goal: Goal) {
        self.goals.push(goal);
    }
    /// Notes that something was not measured, once.
    pub(crate) fn skip(&mut self, benchmark: &str, name: impl Into<String>, reason: impl Into<String>) {
        let skip = Skip { benchmark: benchmark.to_owned(), name: name.into(), reason: reason.into() };
        if !self.skips.contains(&skip) {
            self.skips.push(skip);
        }
    }

    /// The cases in the order in which they were met, each with its figures.
    fn cases(&self) -> Vec<Vec<&Figure>> {
        let mut cases: Vec<Vec<&Figure>> = Vec::new();
        for figure in &self.figures {
            let same = |case: &&mut Vec<&Figure>| {
                case[0].benchmark == figure.benchmark && case[0].case == figure.case
            };
            match cases.iter_mut().find(same) {
                Some(case) => case.push(figure),
                None => cases.push(vec![figure]),
            }
        }
        cases
    }

    /// The table: for each case its figures, with their medians, units, and the lowest and highest of their samples.
    pub(crate) fn table(&self) -> String {
        let mut text = String::new();
        for case in self.cases() {
            let _ = writeln!(text, "\n{}: {}", case[0].benchmark, case[0].case);
            let mut table = Table::new();
            table.load_style(presets::NOTHING);
            for figure in &case {
                let spread = &figure.spread;
                let ratio =
                    ratio_to_best(&case, figure).map(|ratio| format!("gpufs ÷ this: {}", short(ratio)));
                table.add_row([
                    figure.name.clone(),
                    short(spread.median()),
                    figure.unit.to_owned(),
                    short(spread.lowest()),
                    "…".to_owned(),
                    short(spread.highest()),
                    ratio.unwrap_or_default(),
                ]);
            }
            // Columns of different cases stand below each other, where names are not longer.
            let least = [46, 9, 8, 9, 1, 9, 0];
            for ((number, column), least) in table.column_iter_mut().enumerate().zip(least) {
                column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(least)));
                column.set_padding((u16::from(number == 0) * 2, 1));
                if number == 1 || number == 3 {
                    column.set_cell_alignment(CellAlignment::Right);
                }
            }
            let _ = writeln!(text, "{}", table.trim_fmt());
        }
        text.push('\n');
        for skip in &self.skips {
            let _ = writeln!(text, "SKIP {} {}: {}", skip.benchmark, skip.name, skip.reason);
        }
        let _ = writeln!(text, "{} figures, {} skipped", self.figures.len(), self.skips.len());
        text
    }

    /// The table of targets, as Markdown, in the order of their rows; empty where none was measured.
    pub(crate) fn goals(&self) -> String {
        if self.goals.is_empty() {
            return String::new();
        }
        let mut goals: Vec<&Goal> = self.goals.iter().collect();
        goals.sort_by_key(|goal| goal.row);
        let mut table = Table::new();
        table.load_style(presets::ASCII_MARKDOWN);
        table.set_header(["#", "what", "figure", "rival", "ratio", "target", ""]);
        table.add_rows(goals.iter().map(|goal| goal.cells()));
        let count = |met| goals.iter().filter(|goal| goal.is_met() == Some(met)).count();
        format!("\n{table}\ntargets: {} met, {} missed\n", count(true), count(false))
    }

    /// The same as JSON: `machine` as it is, `targets`, `figures`, `skips`.
    pub(crate) fn json(&self, machine: &Value) -> Value {
        let cases = self.cases();
        let figures = cases.iter().flat_map(|case| case.iter().map(move |figure| (case, *figure)));
        let figures: Vec<Value> = figures
            .map(|(case, figure)| {
                let role = match figure.role {
                    Role::Ours => "gpufs",
                    Role::Rival => "rival",
                    Role::Fact => "fact",
                };
                json!({
                    "benchmark": figure.benchmark,
                    "case": figure.case,
                    "name": figure.name,
                    "role": role,
                    "unit": figure.unit,
                    "median": figure.spread.median(),
                    "lowest": figure.spread.lowest(),
                    "highest": figure.spread.highest(),
                    "samples": figure.spread.samples(),
                    "gpufs_divided_by_this": ratio_to_best(case, figure),
                    "x": figure.place.as_ref().map(|place| place.x),
                })
            })
            .collect();
        let skips: Vec<Value> = self
            .skips
            .iter()
            .map(|skip| json!({ "benchmark": skip.benchmark, "name": skip.name, "reason": skip.reason }))
            .collect();
        let goal = |goal: &Goal| {
            json!({
                "row": goal.row,
                "what": goal.what,
                "figure": goal.figure.0,
                "measured": goal.figure.1,
                "unit": goal.unit,
                "rival": goal.rival.as_ref().map(|rival| rival.0),
                "rival_measured": goal.rival.as_ref().map(|rival| &rival.1),
                "ratio": goal.ratio(),
                "target": goal.target(),
                "met": goal.is_met(),
            })
        };
        let targets: Vec<Value> = self.goals.iter().map(goal).collect();
        json!({ "machine": machine, "targets": targets, "figures": figures, "skips": skips })
    }

    /// One SVG for each plot that has at least two places.
    pub(crate) fn plots(&self, directory: &Path) -> Result<(), Failure> {
        fs::create_dir_all(directory)?;
        let mut names: Vec<&str> = Vec::new();
        for place in self.figures.iter().filter_map(|figure| figure.place.as_ref()) {
            if !names.contains(&place.plot.as_str()) {
                names.push(&place.plot);
            }
        }
        for name in names {
            let mut plot = svg::Plot::new(name);
            for figure in &self.figures {
                if let Some(place) = figure.place.as_ref().filter(|place| place.plot == name) {
                    plot.name(place.title.as_deref().unwrap_or(name));
                    plot.label(place.axis, figure.unit);
                    // The best number of threads may differ from place to place.
                    let line = figure.name.split(", threads: ").next().unwrap_or_default();
                    plot.add(line, figure.role == Role::Ours, place.x, &figure.spread);
                }
            }
            if plot.is_worth_drawing() {
                let letters =
                    name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' });
                let file = directory.join(letters.collect::<String>()).with_extension("svg");
                fs::write(file, plot.draw()?)?;
            }
        }
        Ok(())
    }
}

/// The best of gpufs' figures of the case, divided by a rival's.
fn ratio_to_best(case: &[&Figure], rival: &Figure) -> Option<f64> {
    if rival.role != Role::Rival {
        return None;
    }
    let ours = case.iter().filter(|figure| figure.role == Role::Ours && figure.unit == rival.unit);
    let ours = ours.map(|figure| figure.spread.median());
    let best = if is_cost(rival.unit) { ours.reduce(f64::min) } else { ours.reduce(f64::max) }?;
    let ratio = best / rival.spread.median();
    ratio.is_finite().then_some(ratio)
}

/// A number in four figures or so.
pub(crate) fn short(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if size >= 1000.0 => format!("{value:.0}"),
        _ if size >= 100.0 => format!("{value:.1}"),
        _ if size >= 10.0 => format!("{value:.2}"),
        _ if size >= 0.001 || size == 0.0 => format!("{value:.3}"),
        _ => format!("{value:.1e}"),
    }
}

/// A size in bytes, short.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        _ if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes >= 1 << 10 && bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} B"),
    }
}
