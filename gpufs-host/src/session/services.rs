//! Functions of the program that kernels call ([`Service`]).

use gpufs_core::Errno;
use gpufs_core::service::{Service, bytes_of, pod_read_unaligned};

use super::{Body, Builder, Session};
use crate::ring::{ServiceError, Services};

impl Builder {
    /// Lets kernels call `function` as the service `S` (`Fs::call`). It runs on threads of the session, as many at a time as are called for, up to
    /// 256; it may block, and must not wait for the kernel that called it. A panic of it is `EIO` for the caller.
    ///
    /// The session is not opened where the name is taken, or a request or reply has more than
    /// [`SERVICE_BYTES_MAX`](gpufs_core::service::SERVICE_BYTES_MAX) bytes ([`OpenError::Service`](super::OpenError::Service)).
    ///
    /// ```
    /// use gpufs_core::service::Service;
    /// use gpufs_device::Fs;
    /// use gpufs_host::{Grid, Session};
    ///
    /// /// The greatest common divisor, by the host.
    /// struct Divisor;
    /// impl Service for Divisor {
    ///     const NAME: &'static str = "divisor";
    ///     type Request = [u64; 2];
    ///     type Reply = u64;
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let divisor = |[mut a, mut b]: [u64; 2]| {
    ///     while b != 0 {
    ///         (a, b) = (b, a % b);
    ///     }
    ///     Ok(a)
    /// };
    /// let mut session = Session::builder().service::<Divisor>(divisor).cpu()?;
    /// session.run(Grid { blocks: 1, threads: 32 }, |fs| {
    ///     assert_eq!(fs.call::<Divisor>(&[12, 18]), Ok(6));
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn service<S: Service>(
        mut self,
        function: impl Fn(S::Request) -> Result<S::Reply, Errno> + Send + Sync + 'static,
    ) -> Self {
        let added = add::<S>(&self.services, function);
        self.refused_service = self.refused_service.or(added.err());
        self
    }
}

impl Session {
    /// [`Builder::service`] of a session that is open, also while kernels run.
    ///
    /// # Errors
    /// The name is taken, or a request or reply is too long.
    pub fn add_service<S: Service>(
        &self,
        function: impl Fn(S::Request) -> Result<S::Reply, Errno> + Send + Sync + 'static,
    ) -> Result<(), ServiceError> {
        add::<S>(&self.services(), function)
    }

    /// [`Session::add_service`] by a name, with requests and replies of these many bytes. `function` gets the request, and fills the reply, which
    /// is zero before; both are at a multiple of 16.
    ///
    /// # Errors
    /// As [`Session::add_service`].
    pub fn add_service_of_bytes(
        &self,
        name: &str,
        sizes: (usize, usize),
        function: impl Fn(&[u8], &mut [u8]) -> Result<(), Errno> + Send + Sync + 'static,
    ) -> Result<(), ServiceError> {
        self.services().functions.add(name, sizes, Box::new(function))
    }
}

impl Body {
    pub(super) fn services(&self) -> std::sync::Arc<Services> {
        self.services.clone()
    }
}

fn add<S: Service>(
    services: &Services,
    function: impl Fn(S::Request) -> Result<S::Reply, Errno> + Send + Sync + 'static,
) -> Result<(), ServiceError> {
    let body = move |request: &[u8], reply: &mut [u8]| {
        let answer = function(pod_read_unaligned(request))?;
        reply.copy_from_slice(bytes_of(&answer));
        Ok(())
    };
    services.functions.add(S::NAME, (size_of::<S::Request>(), size_of::<S::Reply>()), Box::new(body))
}
