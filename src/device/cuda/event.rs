//! Timing events.

use cudarc::driver::CudaEvent;
use cudarc::driver::sys::{self, CUevent_flags, CUevent_record_flags};

use super::{Cuda, DeviceError};

/// An event that keeps a time stamp.
pub struct Event {
    event: CudaEvent,
}

impl Event {
    /// Makes an event with timing (cudarc's default has none).
    ///
    /// # Errors
    /// The driver refused.
    pub fn new(cuda: &Cuda) -> Result<Self, DeviceError> {
        let event = cuda
            .context
            .new_event(Some(CUevent_flags::CU_EVENT_DEFAULT))
            .map_err(DeviceError::driver("making an event"))?;
        Ok(Event { event })
    }

    /// Records on the stream.
    ///
    /// # Errors
    /// The driver refused.
    pub fn record(&self, cuda: &Cuda) -> Result<(), DeviceError> {
        self.event.record(&cuda.stream).map_err(DeviceError::driver("recording an event"))
    }

    /// Records as a node of the graph being captured, so that each replay takes the time stamp between its neighbours.
    ///
    /// # Errors
    /// The driver refused.
    pub fn record_in_graph(&self, cuda: &Cuda) -> Result<(), DeviceError> {
        cuda.bind()?;
        // SAFETY: event and stream belong to this context and outlive the graph, which its owner keeps beside the event.
        unsafe {
            sys::cuEventRecordWithFlags(
                self.event.cu_event(),
                cuda.raw_stream(),
                CUevent_record_flags::CU_EVENT_RECORD_EXTERNAL as u32,
            )
        }
        .result()
        .map_err(DeviceError::driver("recording an event in a graph"))
    }

    /// Nanoseconds from `self` to `end`; waits for both.
    ///
    /// # Errors
    /// The work between them failed.
    pub fn elapsed_ns(&self, end: &Event) -> Result<f64, DeviceError> {
        let ms = self.event.elapsed_ms(&end.event).map_err(DeviceError::driver("reading a time"))?;
        Ok(f64::from(ms) * 1e6)
    }
}
