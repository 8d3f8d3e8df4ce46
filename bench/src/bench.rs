//! A run of the benchmark: its options, its report, and the session, the GPU and cuFile, which are opened when they are first wanted.

use std::path::{Path, PathBuf};

use crate::cpu;
use crate::cufile::{self, CuFile};
use crate::failure::Failure;
use crate::gpu::Gpu;
use crate::options::Options;
use crate::progress::Progress;
use crate::report::{Figure, Place, Report, Role};
use crate::sample::{Effort, Named, Spread};
use crate::stage::Stage;

/// A run of the benchmark.
pub(crate) struct Bench {
    pub(crate) options: Options,
    pub(crate) report: Report,
    pub(crate) stage: Option<Stage>,
    /// The result of opening it, once it was wanted.
    pub(crate) cufile: Option<Result<CuFile, String>>,
    /// The file that was last asked for, and what it takes instead, or why it takes none.
    pub(crate) cufile_place: Option<(PathBuf, Result<cufile::Place, String>)>,
    pub(crate) gpu: Option<Gpu>,
    pub(crate) progress: Progress,
}

/// Ways that are measured in full after a short sample of each: the first of those may be there by chance.
const FINALISTS: usize = 2;

impl Bench {
    /// The session with that many rings: the one before, if it has as many and blocks of the size that the options say, else a new one in
    /// its place.
    pub(crate) fn stage(&mut self, rings: u32) -> Result<&mut Stage, Failure> {
        let wanted = (rings, self.options.stream_buffer);
        if self.stage.as_ref().is_none_or(|stage| (stage.rings, stage.stream_buffer) != wanted) {
            self.stage = None;
            self.stage = Some(Stage::open(&self.options, self.gpu.as_ref(), rings)?);
        }
        Ok(self.stage.as_mut().expect("opened above"))
    }
    /// Measures the best of several ways on so many rings: one short sample of each shows which may be, and those are measured. The short samples,
    /// and the best's.
    pub(crate) fn best<W: Copy>(
        &mut self,
        rings: u32,
        effort: Effort,
        ways: &[(String, W)],
        mut measure: impl FnMut(&mut Stage, Effort, W) -> Result<Spread, Failure>,
    ) -> Result<(Vec<Named>, Named), Failure> {
        let short = Effort { samples: 1, target: effort.target / 4 };
        let mut tried: Vec<Named> = Vec::new();
        for (name, way) in ways {
            tried.push((name.clone(), measure(self.stage(rings)?, short, *way)?));
        }
        let rate = |index: &usize| tried[*index].1.median();
        let mut order: Vec<usize> = (0..tried.len()).collect();
        order.sort_by(|one, other| rate(other).total_cmp(&rate(one)));
        let mut finals = Vec::new();
        for &index in order.iter().take(FINALISTS) {
            finals.push((index, measure(self.stage(rings)?, effort, ways[index].1)?));
        }
        let best = finals.into_iter().max_by(|(_, one), (_, other)| one.median().total_cmp(&other.median()));
        let (index, measured) = best.ok_or("there is no way to do it")?;
        let name = &ways[index].0;
        Ok((tried, (name.clone(), measured)))
    }
    /// Waits until the session, if one is open, leaves the cores to a rival.
    pub(crate) fn quiet(&self) {
        if let Some(stage) = &self.stage {
            stage.rest();
        }
    }
    /// cuFile, and the GPU whose context is then the calling thread's; or why there is none.
    pub(crate) fn cufile(&mut self) -> Result<(&CuFile, &Gpu), String> {
        let gpu = self.gpu.as_ref().ok_or("needs a GPU")?;
        let chosen = self.options.cufile.as_deref();
        let opened = self.cufile.get_or_insert_with(|| {
            gpu.bind().and_then(|()| CuFile::open(chosen)).map_err(|error| error.to_string())
        });
        opened.as_ref().map(|library| (library, gpu)).map_err(Clone::clone)
    }
    /// The same, with the file that it takes for the one at `path`, of which `span` bytes are read.
    pub(crate) fn cufile_place(
        &mut self,
        path: &Path,
        span: u64,
    ) -> Result<(&CuFile, &Gpu, &cufile::Place), String> {
        self.cufile()?;
        let (Some(Ok(library)), Some(gpu)) = (&self.cufile, &self.gpu) else {
            unreachable!("it was opened above");
        };
        let known = self.cufile_place.take().filter(|(asked, _)| asked == path);
        let found = known.unwrap_or_else(|| (path.to_owned(), cufile::Place::find(library, gpu, path, span)));
        let (_, place) = self.cufile_place.insert(found);
        place.as_ref().map(|place| (library, gpu, place)).map_err(|reason| reason.clone())
    }
    /// The numbers of rings to try.
    pub(crate) fn rings(&self, default: &[u32]) -> Vec<u32> {
        let cores = u32::try_from(cpu::cores()).unwrap_or(u32::MAX);
        self.options
            .rings
            .clone()
            .unwrap_or_else(|| default.iter().copied().filter(|&rings| rings <= cores).collect())
    }
    /// Rings where nothing says how many: half the cores', up to 8.
    pub(crate) fn most_rings(&self) -> u32 {
        let half = u32::try_from(cpu::cores() / 2).unwrap_or(u32::MAX).max(1);
        let default: Vec<u32> = [8, 4, 2, 1].into_iter().filter(|rings| *rings <= half).collect();
        self.rings(&default)[0]
    }
    /// The numbers of warps to try: by default four for each multiprocessor, on a CPU eight.
    pub(crate) fn warps(&self) -> Vec<u32> {
        let default = self.gpu.as_ref().map_or(8, |gpu| 4 * gpu.multiprocessors);
        self.options.warps.clone().unwrap_or_else(|| vec![default])
    }
    /// Says what is being measured, while it is.
    pub(crate) fn step(&mut self, what: &str) {
        self.progress.step(what);
    }
    #[expect(clippy::too_many_arguments, reason = "the fields of a figure")]
    pub(crate) fn figure(
        &mut self,
        benchmark: &'static str,
        case: &str,
        name: &str,
        role: Role,
        unit: &'static str,
        spread: Spread,
        place: Option<Place>,
    ) {
        let (case, name) = (case.to_owned(), name.to_owned());
        self.progress.figure();
        self.report.add(Figure { benchmark, case, name, role, unit, spread, place });
    }
}
