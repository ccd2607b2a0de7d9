//! The choice whether edges run in a sandbox.

/// Whether edges are restricted to the files and system calls that an edge needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SandboxChoice {
    /// Edges are not restricted.
    #[default]
    Off,
    /// Edges are restricted as far as the kernel supports it.
    Try,
    /// Edges are fully restricted, or the server does not start.
    On,
}
