//! A session with a stack, and the three ways through it.

use std::time::{Duration, Instant};

use gpufs_apps::cli::values::Choice;
use gpufs_apps::cli::{self, Defaults, Failure, Options, Plan};
use gpufs_apps::experts::Stack;
use gpufs_apps::kernels::Array;
use gpufs_apps::kernels::experts::{
    Job, Meeting, Tokens, apply_experts, choose_experts, think_cached, think_resident,
};
use gpufs_apps::memory;
use gpufs_device::view::Mapping;
use gpufs_host::Session;
use gpufs_host::session::{DeviceBuffer, Placed};

use crate::slots::Slots;

/// Who brings weights, and where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Cached,
    Host,
    Resident,
}

impl Way {
    pub(crate) const CHOICE: Choice<Self> = Choice {
        wrong: "some of cached,host,resident, with commas",
        names: &[("cached", Self::Cached), ("host", Self::Host), ("resident", Self::Resident)],
    };

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Cached => "cached",
            Self::Host => "host",
            Self::Resident => "resident",
        }
    }
}

/// What a session is opened for.
pub(crate) struct Wants<'a> {
    /// Bytes of the cache, and of a page.
    pub(crate) cache: usize,
    pub(crate) page: u32,
    /// Bytes of the experts that the host may bring.
    pub(crate) experts: usize,
    /// Tokens of a round.
    pub(crate) tokens: u64,
    pub(crate) ways: &'a [Way],
}

/// A session with a stack.
pub(crate) struct Stage<'a> {
    session: Session,
    plan: Plan,
    stack: &'a Stack,
    job: Placed<Job>,
    buffers: Buffers,
    /// The file, where it is wanted.
    map: Option<Mapping>,
    page: u32,
    /// All weights in the device's memory, where they are wanted.
    resident: Option<Array>,
    /// What the host brings, where it does.
    slots: Option<Slots>,
}

/// What the host looks at.
struct Buffers {
    chosen: DeviceBuffer,
    places: DeviceBuffer,
    results: DeviceBuffer,
}

/// What one way did in one round.
pub(crate) struct Outcome {
    pub(crate) states: Vec<u8>,
    pub(crate) took: Duration,
    /// Pages of the cache, or experts that the host looked for.
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    /// Bytes of those that were missed.
    pub(crate) read: u64,
}

impl<'a> Stage<'a> {
    /// Opens it.
    pub(crate) fn open(
        options: &Options,
        defaults: &Defaults,
        stack: &'a Stack,
        wants: &Wants<'_>,
    ) -> Result<Self, Failure> {
        let is_wanted = |way| wants.ways.contains(&way);
        let (mut session, mut plan) = options.open(defaults, |_| {
            let builder = Session::builder();
            if is_wanted(Way::Cached) { builder.cache(wants.cache).cache_page(wants.page) } else { builder }
        })?;
        if plan.is_gpu {
            let threads = plan.grid.threads;
            let at_once = [
                session.occupancy::<think_cached::Entry>(threads)?,
                session.occupancy::<think_resident::Entry>(threads)?,
                session.occupancy::<choose_experts::Entry>(threads)?,
                session.occupancy::<apply_experts::Entry>(threads)?,
            ];
            let most = at_once.into_iter().min().unwrap_or(1) * session.multiprocessors();
            plan.grid.blocks = plan.grid.blocks.min(most).max(1);
        }
        let shape = &stack.shape;
        let (job, buffers) = job_of(&mut session, stack, wants)?;
        let job = session.place(job)?;
        let (mut map, mut resident, mut slots) = (None, None, None);
        if is_wanted(Way::Cached) {
            map = Some(session.map(stack.file.try_clone()?)?);
        }
        if is_wanted(Way::Resident) {
            resident =
                Some(memory::array_of_file(&mut session, &stack.file, (stack.experts_at, stack.bytes()))?);
        }
        if is_wanted(Way::Host) {
            let count = (wants.experts / shape.expert_bytes() as usize).max(shape.chosen as usize);
            slots = Some(Slots::new(&mut session, shape, count)?);
        }
        Ok(Self { session, plan, stack, job, buffers, map, page: wants.page, resident, slots })
    }

    /// One round of one way.
    pub(crate) fn round(&mut self, way: Way, tokens: Tokens) -> Result<Outcome, Failure> {
        let (grid, job, before) = (self.plan.grid, self.job.handle(), self.session.cache_statistics());
        let (took, (mut hits, mut misses, mut read)) = match way {
            Way::Cached => {
                let map = self.map.ok_or("the file is not mapped")?;
                let arguments = think_cached::Arguments { job, map, tokens };
                (cli::run::<think_cached::Entry>(&mut self.session, grid, arguments)?, (0, 0, 0))
            }
            Way::Resident => {
                let experts = self.resident.ok_or("the weights are not resident")?;
                let arguments = think_resident::Arguments { job, experts, tokens };
                (cli::run::<think_resident::Entry>(&mut self.session, grid, arguments)?, (0, 0, 0))
            }
            Way::Host => {
                let mut slots = self.slots.take().ok_or("the host has no room for experts")?;
                let started = Instant::now();
                let counts = self.by_host(&mut slots, tokens);
                let took = started.elapsed();
                self.slots = Some(slots);
                (took, counts?)
            }
        };
        if let Some(errno) = self.session.fetch(&self.job)?.meeting.failure.get() {
            return Err(format!("cannot read weights: {}", errno.text()).into());
        }
        if way == Way::Cached {
            let after = self.session.cache_statistics();
            (hits, misses) = (after.hits - before.hits, after.misses - before.misses);
            read = misses * u64::from(self.page);
        }
        let mut states = vec![0; self.buffers.results.len()];
        self.session.read_device(&self.buffers.results, 0, &mut states)?;
        Ok(Outcome { states, took, hits, misses, read })
    }

    /// The host in the loop: hits, misses, and the bytes that it read.
    fn by_host(&mut self, slots: &mut Slots, tokens: Tokens) -> Result<(u64, u64, u64), Failure> {
        let (grid, job, shape) = (self.plan.grid, self.job.handle(), self.stack.shape);
        let (mut hits, mut misses) = (0, 0);
        let mut chosen = vec![0; self.buffers.chosen.len()];
        for index in 0..tokens.count {
            let token = tokens.first + index;
            for layer in 0..shape.layers {
                let arguments = choose_experts::Arguments { job, token, layer };
                cli::run::<choose_experts::Entry>(&mut self.session, grid, arguments)?;
                self.session.read_device(&self.buffers.chosen, 0, &mut chosen)?;
                let mut places = Vec::new();
                slots.now += 1;
                for expert in chosen.as_chunks::<4>().0 {
                    let expert = u64::from(u32::from_le_bytes(*expert));
                    let (slot, is_there) =
                        slots.slot(&mut self.session, self.stack, shape.place(layer, expert))?;
                    hits += u64::from(is_there);
                    misses += u64::from(!is_there);
                    places.extend((slot as u64 * shape.expert_bytes()).to_le_bytes());
                }
                self.session.write_device(&self.buffers.places, 0, &places)?;
                let arguments = apply_experts::Arguments { job, experts: slots.array, token, layer, index };
                cli::run::<apply_experts::Entry>(&mut self.session, grid, arguments)?;
            }
        }
        Ok((hits, misses, misses * shape.expert_bytes()))
    }
    /// Prints what `--statistics` asks for.
    pub(crate) fn report(&self, options: &Options, ran: Duration) {
        options.report(&self.session, &self.plan, ran);
    }
}

/// What the kernels get, and what the host looks at of it.
fn job_of(session: &mut Session, stack: &Stack, wants: &Wants<'_>) -> Result<(Job, Buffers), Failure> {
    let shape = stack.shape;
    let routers = (stack.routers_at, stack.experts_at - stack.routers_at);
    let (chosen_at, chosen) = memory::words(session, shape.chosen)?;
    let (places_at, places) = memory::words64(session, shape.chosen)?;
    let (results_at, results) = memory::cells(session, wants.tokens * shape.hidden)?;
    let job = Job {
        shape,
        experts_at: stack.experts_at,
        routers: memory::array_of_file(session, &stack.file, routers)?,
        states: memory::cells(session, 2 * shape.hidden)?.1,
        activations: memory::cells(session, shape.chosen * shape.inner)?.1,
        results,
        sums: memory::words64(session, shape.hidden)?.1,
        scores: memory::words(session, shape.experts)?.1,
        chosen,
        places,
        meeting: Meeting::default(),
    };
    Ok((job, Buffers { chosen: chosen_at, places: places_at, results: results_at }))
}
