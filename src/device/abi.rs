//! Bindings of csrc/abi.h and csrc/support/support.h, made by build/bindings.sh; the comments of those headers say what each item means.
#![allow(missing_docs, non_camel_case_types, clippy::undocumented_unsafe_blocks)]

pub const MOEBIUS_ABI_VERSION: u32 = 1;
pub const MOEBIUS_OK: u32 = 0;
pub const MOEBIUS_UNSUPPORTED: u32 = 1;
pub const MOEBIUS_FAILED: u32 = 2;
pub const MOEBIUS_RUN_PREPARE: u32 = 1;
pub const MOEBIUS_RUN_GEMM: u32 = 2;
pub const MOEBIUS_RUN_ALL: u32 = 3;
pub const MOEBIUS_NVFP4_W4A4: u32 = 0;
pub const MOEBIUS_NVFP4_W4A16: u32 = 1;
pub const MOEBIUS_MXFP4_W4A8: u32 = 2;
pub const MOEBIUS_FP8_BLOCK: u32 = 3;
pub const MOEBIUS_FP8: u32 = 4;
pub const MOEBIUS_BF16: u32 = 5;
pub const MOEBIUS_MMA_BF16: u32 = 0;
pub const MOEBIUS_MMA_FP8: u32 = 1;
pub const MOEBIUS_MMA_NVFP4: u32 = 2;
#[repr(C)]
#[derive(Debug)]
pub struct moebius_stream_s {
    _unused: [u8; 0],
}
pub type moebius_stream = *mut moebius_stream_s;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct moebius_message {
    pub text: [::core::ffi::c_char; 256usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of moebius_message"][::core::mem::size_of::<moebius_message>() - 256usize];
    ["Alignment of moebius_message"][::core::mem::align_of::<moebius_message>() - 1usize];
    ["Offset of field: moebius_message::text"][::core::mem::offset_of!(moebius_message, text) - 0usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct moebius_shape {
    pub experts: u32,
    pub n: u32,
    pub k: u32,
    pub rows: u32,
    pub sm_count: u32,
    pub act_globals: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of moebius_shape"][::core::mem::size_of::<moebius_shape>() - 24usize];
    ["Alignment of moebius_shape"][::core::mem::align_of::<moebius_shape>() - 4usize];
    ["Offset of field: moebius_shape::experts"][::core::mem::offset_of!(moebius_shape, experts) - 0usize];
    ["Offset of field: moebius_shape::n"][::core::mem::offset_of!(moebius_shape, n) - 4usize];
    ["Offset of field: moebius_shape::k"][::core::mem::offset_of!(moebius_shape, k) - 8usize];
    ["Offset of field: moebius_shape::rows"][::core::mem::offset_of!(moebius_shape, rows) - 12usize];
    ["Offset of field: moebius_shape::sm_count"][::core::mem::offset_of!(moebius_shape, sm_count) - 16usize];
    ["Offset of field: moebius_shape::act_globals"][::core::mem::offset_of!(moebius_shape, act_globals) - 20usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct moebius_sizes {
    pub packed_weights: u64,
    pub packed_activations: u64,
    pub workspace: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of moebius_sizes"][::core::mem::size_of::<moebius_sizes>() - 24usize];
    ["Alignment of moebius_sizes"][::core::mem::align_of::<moebius_sizes>() - 8usize];
    ["Offset of field: moebius_sizes::packed_weights"][::core::mem::offset_of!(moebius_sizes, packed_weights) - 0usize];
    ["Offset of field: moebius_sizes::packed_activations"]
        [::core::mem::offset_of!(moebius_sizes, packed_activations) - 8usize];
    ["Offset of field: moebius_sizes::workspace"][::core::mem::offset_of!(moebius_sizes, workspace) - 16usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct moebius_operands {
    pub weights: *const ::core::ffi::c_void,
    pub weight_scales: *const ::core::ffi::c_void,
    pub weight_globals: *const f32,
    pub activations: *const ::core::ffi::c_void,
    pub activation_scales: *const ::core::ffi::c_void,
    pub activation_globals: *const f32,
    pub offsets: *const i32,
    pub out: *mut ::core::ffi::c_void,
    pub packed_weights: *const ::core::ffi::c_void,
    pub packed_activations: *const ::core::ffi::c_void,
    pub workspace: *mut ::core::ffi::c_void,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of moebius_operands"][::core::mem::size_of::<moebius_operands>() - 88usize];
    ["Alignment of moebius_operands"][::core::mem::align_of::<moebius_operands>() - 8usize];
    ["Offset of field: moebius_operands::weights"][::core::mem::offset_of!(moebius_operands, weights) - 0usize];
    ["Offset of field: moebius_operands::weight_scales"]
        [::core::mem::offset_of!(moebius_operands, weight_scales) - 8usize];
    ["Offset of field: moebius_operands::weight_globals"]
        [::core::mem::offset_of!(moebius_operands, weight_globals) - 16usize];
    ["Offset of field: moebius_operands::activations"]
        [::core::mem::offset_of!(moebius_operands, activations) - 24usize];
    ["Offset of field: moebius_operands::activation_scales"]
        [::core::mem::offset_of!(moebius_operands, activation_scales) - 32usize];
    ["Offset of field: moebius_operands::activation_globals"]
        [::core::mem::offset_of!(moebius_operands, activation_globals) - 40usize];
    ["Offset of field: moebius_operands::offsets"][::core::mem::offset_of!(moebius_operands, offsets) - 48usize];
    ["Offset of field: moebius_operands::out"][::core::mem::offset_of!(moebius_operands, out) - 56usize];
    ["Offset of field: moebius_operands::packed_weights"]
        [::core::mem::offset_of!(moebius_operands, packed_weights) - 64usize];
    ["Offset of field: moebius_operands::packed_activations"]
        [::core::mem::offset_of!(moebius_operands, packed_activations) - 72usize];
    ["Offset of field: moebius_operands::workspace"][::core::mem::offset_of!(moebius_operands, workspace) - 80usize];
};
#[repr(C)]
#[derive(Debug, Default, Copy, Clone)]
pub struct moebius_resources {
    pub registers: u32,
    pub static_shared: u32,
    pub dynamic_shared: u32,
    pub local_bytes: u32,
    pub threads: u32,
    pub stages: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of moebius_resources"][::core::mem::size_of::<moebius_resources>() - 24usize];
    ["Alignment of moebius_resources"][::core::mem::align_of::<moebius_resources>() - 4usize];
    ["Offset of field: moebius_resources::registers"][::core::mem::offset_of!(moebius_resources, registers) - 0usize];
    ["Offset of field: moebius_resources::static_shared"]
        [::core::mem::offset_of!(moebius_resources, static_shared) - 4usize];
    ["Offset of field: moebius_resources::dynamic_shared"]
        [::core::mem::offset_of!(moebius_resources, dynamic_shared) - 8usize];
    ["Offset of field: moebius_resources::local_bytes"]
        [::core::mem::offset_of!(moebius_resources, local_bytes) - 12usize];
    ["Offset of field: moebius_resources::threads"][::core::mem::offset_of!(moebius_resources, threads) - 16usize];
    ["Offset of field: moebius_resources::stages"][::core::mem::offset_of!(moebius_resources, stages) - 20usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct moebius_unit {
    pub abi_version: u32,
    pub scheme: u32,
    pub id: *const ::core::ffi::c_char,
    pub weights_layout: *const ::core::ffi::c_char,
    pub activations_layout: *const ::core::ffi::c_char,
    pub version: *const ::core::ffi::c_char,
    pub supports:
        ::core::option::Option<unsafe extern "C" fn(arg1: *const moebius_shape, arg2: *mut moebius_message) -> i32>,
    pub sizes: ::core::option::Option<
        unsafe extern "C" fn(arg1: *const moebius_shape, arg2: *mut moebius_sizes, arg3: *mut moebius_message) -> i32,
    >,
    pub pack_weights: ::core::option::Option<
        unsafe extern "C" fn(
            arg1: *const moebius_shape,
            arg2: *const moebius_operands,
            arg3: moebius_stream,
            arg4: *mut moebius_message,
        ) -> i32,
    >,
    pub pack_activations: ::core::option::Option<
        unsafe extern "C" fn(
            arg1: *const moebius_shape,
            arg2: *const moebius_operands,
            arg3: moebius_stream,
            arg4: *mut moebius_message,
        ) -> i32,
    >,
    pub plan: ::core::option::Option<
        unsafe extern "C" fn(
            arg1: *const moebius_shape,
            arg2: *const moebius_operands,
            arg3: moebius_stream,
            plan: *mut *mut ::core::ffi::c_void,
            arg4: *mut moebius_message,
        ) -> i32,
    >,
    pub run: ::core::option::Option<
        unsafe extern "C" fn(
            plan: *mut ::core::ffi::c_void,
            parts: u32,
            pdl: u32,
            arg1: moebius_stream,
            arg2: *mut moebius_message,
        ) -> i32,
    >,
    pub destroy: ::core::option::Option<unsafe extern "C" fn(plan: *mut ::core::ffi::c_void)>,
    pub resources:
        ::core::option::Option<unsafe extern "C" fn(arg1: *mut moebius_resources, arg2: *mut moebius_message) -> i32>,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of moebius_unit"][::core::mem::size_of::<moebius_unit>() - 104usize];
    ["Alignment of moebius_unit"][::core::mem::align_of::<moebius_unit>() - 8usize];
    ["Offset of field: moebius_unit::abi_version"][::core::mem::offset_of!(moebius_unit, abi_version) - 0usize];
    ["Offset of field: moebius_unit::scheme"][::core::mem::offset_of!(moebius_unit, scheme) - 4usize];
    ["Offset of field: moebius_unit::id"][::core::mem::offset_of!(moebius_unit, id) - 8usize];
    ["Offset of field: moebius_unit::weights_layout"][::core::mem::offset_of!(moebius_unit, weights_layout) - 16usize];
    ["Offset of field: moebius_unit::activations_layout"]
        [::core::mem::offset_of!(moebius_unit, activations_layout) - 24usize];
    ["Offset of field: moebius_unit::version"][::core::mem::offset_of!(moebius_unit, version) - 32usize];
    ["Offset of field: moebius_unit::supports"][::core::mem::offset_of!(moebius_unit, supports) - 40usize];
    ["Offset of field: moebius_unit::sizes"][::core::mem::offset_of!(moebius_unit, sizes) - 48usize];
    ["Offset of field: moebius_unit::pack_weights"][::core::mem::offset_of!(moebius_unit, pack_weights) - 56usize];
    ["Offset of field: moebius_unit::pack_activations"]
        [::core::mem::offset_of!(moebius_unit, pack_activations) - 64usize];
    ["Offset of field: moebius_unit::plan"][::core::mem::offset_of!(moebius_unit, plan) - 72usize];
    ["Offset of field: moebius_unit::run"][::core::mem::offset_of!(moebius_unit, run) - 80usize];
    ["Offset of field: moebius_unit::destroy"][::core::mem::offset_of!(moebius_unit, destroy) - 88usize];
    ["Offset of field: moebius_unit::resources"][::core::mem::offset_of!(moebius_unit, resources) - 96usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct moebius_reference {
    pub scheme: u32,
    pub max_rows: u32,
    pub column_count: u32,
    pub columns: *const i32,
    pub values: *mut f64,
    pub abs_sums: *mut f32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of moebius_reference"][::core::mem::size_of::<moebius_reference>() - 40usize];
    ["Alignment of moebius_reference"][::core::mem::align_of::<moebius_reference>() - 8usize];
    ["Offset of field: moebius_reference::scheme"][::core::mem::offset_of!(moebius_reference, scheme) - 0usize];
    ["Offset of field: moebius_reference::max_rows"][::core::mem::offset_of!(moebius_reference, max_rows) - 4usize];
    ["Offset of field: moebius_reference::column_count"]
        [::core::mem::offset_of!(moebius_reference, column_count) - 8usize];
    ["Offset of field: moebius_reference::columns"][::core::mem::offset_of!(moebius_reference, columns) - 16usize];
    ["Offset of field: moebius_reference::values"][::core::mem::offset_of!(moebius_reference, values) - 24usize];
    ["Offset of field: moebius_reference::abs_sums"][::core::mem::offset_of!(moebius_reference, abs_sums) - 32usize];
};
impl Default for moebius_reference {
    fn default() -> Self {
        let mut s = ::core::mem::MaybeUninit::<Self>::uninit();
        unsafe {
            ::core::ptr::write_bytes(s.as_mut_ptr(), 0, 1);
            s.assume_init()
        }
    }
}
unsafe extern "C" {
    pub fn moebius_support_reference(
        arg1: *const moebius_shape,
        arg2: *const moebius_operands,
        arg3: *const moebius_reference,
        arg4: moebius_stream,
        arg5: *mut moebius_message,
    ) -> i32;
    pub fn moebius_support_empty(arg1: moebius_stream, arg2: *mut moebius_message) -> i32;
    pub fn moebius_support_read(
        source: *const ::core::ffi::c_void,
        bytes: u64,
        sink: *mut ::core::ffi::c_void,
        sm_count: u32,
        arg1: moebius_stream,
        arg2: *mut moebius_message,
    ) -> i32;
    pub fn moebius_support_write(
        target: *mut ::core::ffi::c_void,
        bytes: u64,
        sm_count: u32,
        arg1: moebius_stream,
        arg2: *mut moebius_message,
    ) -> i32;
    pub fn moebius_support_copy(
        source: *const ::core::ffi::c_void,
        target: *mut ::core::ffi::c_void,
        bytes: u64,
        sm_count: u32,
        arg1: moebius_stream,
        arg2: *mut moebius_message,
    ) -> i32;
    pub fn moebius_support_mma(
        kind: u32,
        iterations: u32,
        sink: *mut ::core::ffi::c_void,
        sm_count: u32,
        operations: *mut f64,
        arg1: moebius_stream,
        arg2: *mut moebius_message,
    ) -> i32;
}
