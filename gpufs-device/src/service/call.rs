//! Functions of the program on the host, which a kernel calls.

use gpufs_core::abi::Sqe;
use gpufs_core::failures::counted;
use gpufs_core::service::{SERVICE_BYTES_MAX, Service, Zeroable as _, bytes_of, bytes_of_mut, key_of};
use gpufs_core::{Call, Errno};
use static_assertions::const_assert;

use crate::Fs;
use crate::file::PATH_MAX;
use crate::io::{StagingArea, serve_staged};
use crate::warp::Lanes;

// One staging buffer holds either.
const_assert!(SERVICE_BYTES_MAX <= PATH_MAX);

impl Fs {
    /// Calls the program's function that the host registered as the service `S` (`Builder::service`), and waits for its reply. A warp's calls go
    /// to the host as one batch; the host runs as many of them at a time as it has threads for.
    ///
    /// # Errors
    /// What the function returns; `ENOSYS` where the session has no service of the name; `EINVAL` where that has a request or a reply of another
    /// size; `EIO` where the function panics. `EBUSY` where functions have kept all of the host's threads, 256, for ten seconds.
    pub fn call<S: Service>(self, request: &S::Request) -> Result<S::Reply, Errno> {
        const {
            assert!(
                size_of::<S::Request>() <= SERVICE_BYTES_MAX,
                "a request has at most SERVICE_BYTES_MAX bytes"
            );
            assert!(
                size_of::<S::Reply>() <= SERVICE_BYTES_MAX,
                "a reply has at most SERVICE_BYTES_MAX bytes"
            );
        }
        let mut reply = S::Reply::zeroed();
        self.call_by_key(const { key_of(S::NAME.as_bytes()) }, bytes_of(request), bytes_of_mut(&mut reply))?;
        Ok(reply)
    }

    /// [`Fs::call`] for callers that have only bytes: the service with the key `key` ([`key_of`]). The sizes must be the service's.
    ///
    /// # Errors
    /// As [`Fs::call`]; `EINVAL` for more than [`SERVICE_BYTES_MAX`] bytes.
    pub fn call_by_key(self, key: u64, request: &[u8], reply: &mut [u8]) -> Result<(), Errno> {
        let inside = self.enter()?;
        let lanes = Lanes::calling(&inside, Call::Service);
        let fits = request.len() <= SERVICE_BYTES_MAX && reply.len() <= SERVICE_BYTES_MAX;
        let bytes = fits.then_some(SERVICE_BYTES_MAX as u64);
        #[expect(
            clippy::cast_possible_truncation,
            reason = "at most SERVICE_BYTES_MAX, where there is an entry"
        )]
        let sizes = (request.len() as u32, reply.len() as u32);
        let entry = |area: StagingArea| {
            area.put(0, request);
            Sqe::call(key, area.address, sizes.0, sizes.1)
        };
        let called = serve_staged(self.session(), lanes, bytes, entry, |area, _| area.take(0, reply));
        counted(self.session(), Call::Service, if fits { called.map(drop) } else { Err(Errno::INVAL) })
    }
}
