//! What the workers of a ring are to do, what they are doing, and how much of it one takes at a time.

use std::collections::VecDeque;
use std::os::fd::{FromRawFd, OwnedFd};

use gpufs_core::Errno;
use gpufs_core::abi::{SERVICE_CALL, SERVICE_OPCODES, SERVICE_POPEN, Sqe, is_of_paths, is_of_pipes};

use super::chain::Rest;

/// Workers that a ring starts with.
pub(super) const WORKERS_INITIAL: usize = 4;
/// Workers of a ring, and so operations that can block one at once.
pub(super) const WORKERS_MAX: usize = 256;
/// The most brief tasks that a worker takes at a time.
const TAKEN_MAX: usize = 16;
/// Brief tasks for which it pays to wake a worker.
pub(super) const BRIEF_OF_A_WAKE: usize = 4;

/// What a worker is to do.
#[derive(Debug)]
pub(super) enum Task {
    /// Carry an entry out. `ready`: the file that it waited for is ready. `rest`: those of its chain that come after it.
    Perform { sqe: Sqe, ready: bool, rest: Rest },
    /// Post a result.
    Answer { user_data: u64, result: i32 },
}

impl Task {
    /// The `user_data` and the result, where there is no worker for it, of each of its entries.
    pub(super) fn refused(&self) -> Vec<(u64, i32)> {
        match self {
            Self::Perform { sqe, rest, .. } => {
                std::iter::once((sqe.user_data, -Errno::BUSY.number())).chain(rest.cancelled()).collect()
            }
            Self::Answer { user_data, result } => vec![(*user_data, *result)],
        }
    }
    /// Whether it is one system call that waits for nobody: on a path, or a service but for those that run the program's code or start a process.
    /// Behind others of its kind it waits for no longer than a file system takes.
    pub(super) fn is_brief(&self) -> bool {
        match self {
            Self::Perform { sqe, .. } => {
                is_of_paths(sqe.opcode)
                    || is_of_pipes(sqe.opcode)
                    || (sqe.opcode >= SERVICE_OPCODES && !matches!(sqe.opcode, SERVICE_CALL | SERVICE_POPEN))
            }
            Self::Answer { .. } => false,
        }
    }
    fn is(&self, wanted: u64) -> bool {
        matches!(self, Self::Perform { sqe, .. } if sqe.user_data == wanted)
    }
}

/// What one worker has taken, and the results that it has not posted yet.
#[derive(Default)]
pub(super) struct Held {
    pub(super) tasks: VecDeque<Task>,
    pub(super) results: Vec<(Sqe, i32)>,
}

/// The tasks of a ring.
#[derive(Debug, Default)]
pub(super) struct Tasks {
    /// Those that no worker has begun.
    waiting: VecDeque<Task>,
    /// Of each worker, the `user_data` of the entries that it has taken.
    running: Vec<Vec<u64>>,
    /// Of those, which were cancelled: they end where they would have to wait.
    cancelled: Vec<u64>,
}

impl Tasks {
    /// How many no worker has begun.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }
    pub(super) fn push(&mut self, task: Task) {
        self.waiting.push_back(task);
    }
    /// Takes all that wait.
    pub(super) fn take_waiting(&mut self) -> VecDeque<Task> {
        std::mem::take(&mut self.waiting)
    }
    /// Puts back what [`Tasks::take_waiting`] took.
    pub(super) fn put_back(&mut self, waiting: VecDeque<Task>) {
        self.waiting = waiting;
    }
    /// Takes a task that waits away: its entry, and those that come after it.
    pub(super) fn remove(&mut self, user_data: u64) -> Option<(Sqe, Rest)> {
        let place = self.waiting.iter().position(|task| task.is(user_data))?;
        match self.waiting.remove(place) {
            Some(Task::Perform { sqe, rest, .. }) => Some((sqe, rest)),
            _ => None,
        }
    }
    /// The number of a new worker.
    pub(super) fn add_worker(&mut self) -> usize {
        self.running.push(Vec::with_capacity(TAKEN_MAX));
        self.running.len() - 1
    }
    /// Cancels an entry that a worker has; whether one has it.
    pub(super) fn cancel_running(&mut self, user_data: u64) -> bool {
        let is_running = self.running.iter().any(|taken| taken.contains(&user_data));
        if is_running && !self.cancelled.contains(&user_data) {
            self.cancelled.push(user_data);
        }
        is_running
    }
    /// A worker no longer has the entry, which would have to wait; whether it was cancelled meanwhile.
    #[must_use]
    pub(super) fn forget(&mut self, worker: usize, user_data: u64) -> bool {
        self.running[worker].retain(|taken| *taken != user_data);
        let place = self.cancelled.iter().position(|cancelled| *cancelled == user_data);
        place.map(|place| self.cancelled.swap_remove(place)).is_some()
    }
    /// A worker has done all that it had.
    pub(super) fn forget_all(&mut self, worker: usize) {
        let Self { running, cancelled, .. } = self;
        if !cancelled.is_empty() {
            cancelled.retain(|cancelled| !running[worker].contains(cancelled));
        }
        running[worker].clear();
    }
    /// Gives a worker its next tasks, one, or several that are brief: as many as leave some for each worker of the crew. Whether there are any.
    pub(super) fn take(&mut self, worker: usize, crew: usize, held: &mut Held) -> bool {
        let most = (self.waiting.len() / crew).clamp(1, TAKEN_MAX);
        // Ends: each round takes a task, or is the last.
        while held.tasks.len() < most
            && let Some(task) = self.waiting.pop_front_if(|task| held.tasks.is_empty() || task.is_brief())
        {
            if let Task::Perform { sqe, .. } = &task {
                self.running[worker].push(sqe.user_data);
            }
            let is_alone = !task.is_brief();
            held.tasks.push_back(task);
            if is_alone {
                break;
            }
        }
        !held.tasks.is_empty()
    }
}

/// Workers that brief operations get on so many cores. The ring service has a core, and so has the program. A ring of I/O, of which there are
/// several, keeps to those that it starts with.
pub(super) fn crew(cores: usize, for_services: bool) -> usize {
    if for_services { cores.saturating_sub(2).clamp(WORKERS_INITIAL, WORKERS_MAX) } else { WORKERS_INITIAL }
}

/// Closes the descriptor of an open whose result is not posted.
pub(super) fn close_unseen(result: i32) {
    if result >= 0 {
        // SAFETY:
        // - the kernel has just made this descriptor, and nothing else owns it
        drop(unsafe { OwnedFd::from_raw_fd(result) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpufs_core::abi::AT_FDCWD;

    fn tasks(entries: impl IntoIterator<Item = Sqe>) -> Tasks {
        let mut tasks = Tasks::default();
        for (number, sqe) in (1..).zip(entries) {
            let sqe = sqe.with_user_data(number);
            tasks.push(Task::Perform { sqe, ready: false, rest: Rest::default() });
        }
        tasks
    }

    #[test]
    fn brief_tasks_are_taken_together_and_others_alone() {
        let looks = |count| std::iter::repeat_n(Sqe::statx(AT_FDCWD, 0, 0, 0, 0), count);
        let slow = [Sqe::fsync(0, 0), Sqe::call(0, 0, 0, 0)];
        let mut tasks = tasks(looks(40).chain(slow).chain(looks(3)));
        let worker = tasks.add_worker();
        let mut taken = Vec::new();
        // Ends: when all are taken.
        loop {
            let mut held = Held::default();
            tasks.forget_all(worker);
            if !tasks.take(worker, 4, &mut held) {
                break;
            }
            let first = held.tasks[0].refused()[0].0;
            assert!(tasks.cancel_running(first) && tasks.remove(first).is_none(), "{first}");
            taken.push(held.tasks.len());
        }
        assert_eq!(taken[..3], [11, 8, 6], "a share of what waits");
        assert_eq!(taken.iter().sum::<usize>(), 45);
        assert_eq!(taken[taken.len() - 5..], [1; 5], "what may take long is taken alone, and so are few");
        assert!(!tasks.cancel_running(45) && tasks.cancelled.is_empty());
    }

    #[test]
    fn one_worker_takes_no_more_than_the_most() {
        let mut tasks = tasks(std::iter::repeat_n(Sqe::statx(AT_FDCWD, 0, 0, 0, 0), 1000));
        let (worker, mut held) = (tasks.add_worker(), Held::default());
        assert!(tasks.take(worker, 4, &mut held));
        assert_eq!((held.tasks.len(), tasks.waiting()), (TAKEN_MAX, 1000 - TAKEN_MAX));
    }

    /// Between taking an entry and putting it among those that wait, a worker has it alone: a cancel that comes then is not forgotten.
    #[test]
    fn what_was_cancelled_at_work_does_not_wait() {
        let mut tasks = tasks([Sqe::fsync(0, 0), Sqe::fsync(0, 0)]);
        let (worker, mut held) = (tasks.add_worker(), Held::default());
        assert!(tasks.take(worker, 4, &mut held) && tasks.cancel_running(1) && tasks.cancel_running(1));
        assert!(!tasks.cancel_running(2), "no worker has it");
        assert!(tasks.forget(worker, 1), "it would wait, and was cancelled");
        assert!(!tasks.forget(worker, 1) && !tasks.cancel_running(1));
        tasks.forget_all(worker);
        held.tasks.clear();
        assert!(tasks.take(worker, 4, &mut held) && tasks.cancel_running(2));
        tasks.forget_all(worker);
        assert!(tasks.cancelled.is_empty(), "it ended before");
    }

    #[test]
    fn what_waits_can_be_taken_away() {
        let mut tasks = tasks([Sqe::fsync(0, 0), Sqe::fsync(0, 0)]);
        assert!(tasks.remove(2).is_some() && tasks.remove(2).is_none());
        assert_eq!(tasks.waiting(), 1);
    }
}
