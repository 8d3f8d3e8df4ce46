//! Kernels that somebody else launches, such as the CUDA runtime on behalf of a C++ program, and calls that the host itself makes.

use gpufs_core::Errno;
use gpufs_core::session::SessionTables;

use super::{Attendant, Backend, Body, SyncError};

impl Body {
    /// `Session::begin_external`.
    pub(super) fn begin_external(&mut self) -> Result<(), SyncError> {
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

    /// `Session::with_tables`.
    pub(super) fn with_tables<T>(
        &mut self,
        calls: impl FnOnce(&'static SessionTables) -> T,
    ) -> Result<T, Errno> {
        if !self.gpu_launches.is_empty() || self.external {
            return Err(Errno::BUSY);
        }
        let _attention = self.attendant.as_ref().map(Attendant::attention);
        let _lanes = self.gate.lanes();
        Ok(calls(self.tables.host))
    }
}
