//! Kernels that somebody else launches, such as the CUDA runtime on behalf of a C++ program, and calls that the host itself makes.

use gpufs_core::Errno;
use gpufs_core::session::Session as View;

use super::{Attendant, Backend, Session, SyncError};

impl Session {
    /// Where kernels find the tables: the argument of a kernel that somebody else launches. On CPU lanes, the host's own.
    #[must_use]
    pub fn device_tables(&self) -> u64 {
        self.tables.device_address
    }

    /// Makes the session ready for kernels that somebody else launches with [`Session::device_tables`] as their argument, in the context
    /// that the session uses (CUDA: the primary one). They run between this and the next [`Session::synchronize`], which waits for the whole
    /// device. Calling it again before that changes nothing.
    ///
    /// # Errors
    /// The tables could not be copied to the device.
    pub fn begin_external(&mut self) -> Result<(), SyncError> {
        match &self.backend {
            // Here kernels are launched by the session alone.
            Backend::Cpu(_) => Ok(()),
            Backend::Gpu(_) => {
                if self.dead {
                    return Err(SyncError::Dead);
                }
                if !self.external {
                    if self.gpu_launches.is_empty() {
                        self.tables.push().map_err(SyncError::Tables)?;
                    }
                    if let Some(attendant) = &self.attendant {
                        attendant.begin();
                    }
                    self.external = true;
                }
                Ok(())
            }
        }
    }

    /// Lets the host make device calls itself, as a warp of one lane, on its view of the tables: opening a stream for kernels, say.
    ///
    /// # Errors
    /// `EBUSY` while kernels run on a GPU, whose tables are then ahead of the host's.
    pub fn with_tables<T>(&mut self, calls: impl FnOnce(&'static View) -> T) -> Result<T, Errno> {
        if !self.gpu_launches.is_empty() || self.external {
            return Err(Errno::BUSY);
        }
        let _attention = self.attendant.as_ref().map(Attendant::attention);
        Ok(calls(self.tables.host))
    }
}
