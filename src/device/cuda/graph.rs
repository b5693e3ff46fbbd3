//! CUDA graphs.

use cudarc::driver::CudaGraph;
use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};

use super::{Cuda, DeviceError};

/// A captured graph, ready to be replayed.
pub struct Graph {
    graph: CudaGraph,
}

/// Captures what `work` puts on the stream.
///
/// # Errors
/// `work` failed, or what it did may not be captured.
pub fn capture(cuda: &Cuda, work: impl FnOnce() -> Result<(), DeviceError>) -> Result<Graph, DeviceError> {
    cuda.stream
        .begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
        .map_err(DeviceError::driver("beginning a capture"))?;
    let worked = work();
    // The capture is ended even when the work failed, or the stream stays unusable.
    let ended = cuda.stream.end_capture(CUgraphInstantiate_flags(0)).map_err(DeviceError::driver("ending a capture"));
    worked?;
    let graph = ended?.ok_or_else(|| DeviceError::Kernel("the capture holds no work".to_owned()))?;
    graph.upload().map_err(DeviceError::driver("uploading a graph"))?;
    Ok(Graph { graph })
}

impl Graph {
    /// Replays on the stream.
    ///
    /// # Errors
    /// The driver refused, or earlier work failed.
    pub fn launch(&self) -> Result<(), DeviceError> {
        self.graph.launch().map_err(DeviceError::driver("replaying a graph"))
    }
}
