//! What the processor can do, measured with all threads in a few seconds.
//!
//! Reads are sums over a buffer well beyond the last-level cache, writes fill it, cache reads go over a buffer that fits
//! it. Arithmetic is the best that a kernel of the scheme may use: independent fused multiply-adds of f32 in the widest
//! registers; for NVFP4 by NVFP4, whose codes are small integers, dot products of bytes where the processor has them, a
//! multiplication and an addition counted for each product as everywhere. Launch is one empty parallel call.

use std::hint::black_box;
use std::time::Instant;

use rayon::prelude::*;

use crate::kernel::Scheme;
use crate::kernel::cpu::Isa;
use crate::numeric::widest;
use crate::record::{Ceilings, Device, Extra};

/// The buffer of the memory ceilings is this many caches large, within the limits below.
const CACHES: u64 = 4;
const LEAST_BYTES: u64 = 256 << 20;
const MOST_BYTES: u64 = 1 << 30;
/// Each ceiling is the best of so many tries: what the machine can do, not what it did beside others.
const TRIES: u32 = 6;
/// Independent accumulators of 16 lanes: more than latency times issue width of any present core.
const CHAINS: usize = 24;
const LANES: usize = 16;
/// A step that neither grows nor dies.
const FACTOR: f32 = 0.999_9;
const TERM: f32 = 1e-4;

/// Measures the ceilings.
pub fn measure(device: &Device) -> Ceilings {
    let most = MOST_BYTES.min(device.memory_bytes / 4).max(LEAST_BYTES);
    let words = ((device.cache_bytes.saturating_mul(CACHES)).clamp(LEAST_BYTES, most) / 8) as usize;
    let mut buffer: Vec<u64> =
        (0..words as u64).into_par_iter().map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let bytes = (words * 8) as f64;
    let read = best(|| read_all(&buffer));
    let write = best(|| buffer.par_chunks_mut(1 << 16).for_each(|chunk| chunk.fill(black_box(1))));
    let threads = rayon::current_num_threads();
    let cached = ((device.cache_bytes / 4).clamp(1 << 20, 32 << 20) / 8) as usize;
    let cached = &buffer[..cached.min(buffer.len())];
    let passes = 32;
    let cache_read = best(|| (0..passes).for_each(|_| read_all(cached)));
    let (floats, codes) = arithmetic(threads);
    let flops = |scheme| if scheme == Scheme::Nvfp4W4a4 { codes } else { floats };
    let launches = 1000;
    let launch = best(|| {
        (0..launches).for_each(|_| {
            (0..threads).into_par_iter().for_each(|i| {
                black_box(i);
            })
        })
    });
    Ceilings {
        read_bytes_per_s: Some(bytes / read),
        write_bytes_per_s: Some(bytes / write),
        cache_read_bytes_per_s: Some((cached.len() * 8 * passes) as f64 / cache_read),
        flops_per_s: Scheme::ALL.into_iter().map(|scheme| (scheme, flops(scheme))).collect(),
        launch_ns: Some(launch / f64::from(launches) * 1e9),
        source: Some(format!("measured at the start of the run on {threads} threads")),
        extra: Extra::default(),
        ..Ceilings::default()
    }
}

/// The products of one iteration of a loop of byte dot products, and the loop, where the kernels use them.
fn byte_dots(isa: Isa) -> Option<(usize, fn(u64))> {
    match isa {
        // SAFETY: `Isa` has it that the processor was asked for the features.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512Vnni => Some((CHAINS * 64, |iterations| unsafe { byte_dots_vnni(iterations) })),
        // SAFETY: as above; AVX-512 comes with AVX2.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 | Isa::Avx2 => Some((CHAINS / 2 * 32, |iterations| unsafe { byte_dots_avx2(iterations) })),
        _ => None,
    }
}

/// Operations per second of f32, and of the codes of NVFP4 by NVFP4.
fn arithmetic(threads: usize) -> (f64, f64) {
    let iterations = 2_000_000;
    let rate = |products: usize, work: fn(u64)| {
        let seconds = best(|| (0..threads).into_par_iter().for_each(|_| work(iterations)));
        2.0 * products as f64 * iterations as f64 * threads as f64 / seconds
    };
    let floats = rate(CHAINS * LANES, multiply_add);
    let codes = byte_dots(Isa::detect()).map_or(floats, |(products, work)| floats.max(rate(products, work)));
    (floats, codes)
}

/// Shortest time of some tries, in seconds.
fn best(mut work: impl FnMut()) -> f64 {
    (0..TRIES)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min)
}

/// Sums all words, each thread along several streams at once.
fn read_all(words: &[u64]) {
    let folded = words
        .par_chunks(1 << 16)
        .map(|chunk| {
            widest(
                #[inline(always)]
                || read_streams(chunk),
            )
        })
        .reduce(|| 0, |a, b| a ^ b);
    black_box(folded);
}

/// Streams that a thread reads at once: a single one, even prefetched, does not get all that a core can ask of memory.
const STREAMS: usize = 8;
/// Words of a cache line.
const LINE: usize = 8;
/// Cache lines that are asked for before they are read.
const LINES_AHEAD: usize = 32;

#[inline(always)]
fn read_streams(words: &[u64]) -> u64 {
    let lines = words.as_chunks::<LINE>().0;
    let length = lines.len() / STREAMS;
    let mut sums = [[0u64; LINE]; STREAMS];
    for i in 0..length {
        for (stream, sums) in sums.iter_mut().enumerate() {
            let at = stream * length + i;
            ask_for(lines.get(at + LINES_AHEAD));
            for (sum, word) in sums.iter_mut().zip(&lines[at]) {
                *sum ^= word;
            }
        }
    }
    sums.as_flattened().iter().fold(0, |a, b| a ^ b)
}

/// Asks for a cache line without waiting for it, where that can be said.
#[inline(always)]
fn ask_for(line: Option<&[u64; LINE]>) {
    #[cfg(target_arch = "x86_64")]
    if let Some(line) = line {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: a prefetch accesses nothing, whatever its address.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(line.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}

fn multiply_add(iterations: u64) {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the feature was just detected.
            return unsafe { multiply_add_avx512(iterations) };
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: both features were just detected.
            return unsafe { multiply_add_avx2(iterations) };
        }
    }
    // Elsewhere the compiler's vectors of a multiplication and an addition; `mul_add` might call a library.
    let mut sums = [1.0f32; CHAINS * LANES];
    let (factor, term) = (black_box(FACTOR), black_box(TERM));
    for _ in 0..iterations {
        sums.iter_mut().for_each(|sum| *sum = *sum * factor + term);
    }
    black_box(sums);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn multiply_add_avx512(iterations: u64) {
    use std::arch::x86_64::{_mm512_fmadd_ps, _mm512_set1_ps};
    let (factor, term) = (_mm512_set1_ps(black_box(FACTOR)), _mm512_set1_ps(black_box(TERM)));
    let mut sums = [_mm512_set1_ps(1.0); CHAINS];
    for _ in 0..iterations {
        for sum in &mut sums {
            *sum = _mm512_fmadd_ps(*sum, factor, term);
        }
    }
    black_box(sums);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn multiply_add_avx2(iterations: u64) {
    use std::arch::x86_64::{_mm256_fmadd_ps, _mm256_set1_ps};
    // Half the lanes of a chain: each step of 24 chains of 16 lanes takes two rounds of 12 registers twice.
    let (factor, term) = (_mm256_set1_ps(black_box(FACTOR)), _mm256_set1_ps(black_box(TERM)));
    let mut sums = [_mm256_set1_ps(1.0); CHAINS / 2];
    for _ in 0..4 * iterations {
        for sum in &mut sums {
            *sum = _mm256_fmadd_ps(*sum, factor, term);
        }
    }
    black_box(sums);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vnni")]
fn byte_dots_vnni(iterations: u64) {
    use std::arch::x86_64::{_mm512_dpbusd_epi32, _mm512_set1_epi8};
    let (weights, activations) = (_mm512_set1_epi8(black_box(3)), _mm512_set1_epi8(black_box(-2)));
    let mut sums = [_mm512_set1_epi8(0); CHAINS];
    for _ in 0..iterations {
        for sum in &mut sums {
            *sum = _mm512_dpbusd_epi32(*sum, weights, activations);
        }
    }
    black_box(sums);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn byte_dots_avx2(iterations: u64) {
    use std::arch::x86_64::{_mm256_maddubs_epi16, _mm256_set1_epi8};
    // Each product feeds the next, so that none can be left out. What adds the pairs up runs beside the multiplier.
    let activations = _mm256_set1_epi8(black_box(-2));
    let mut sums = [_mm256_set1_epi8(1); CHAINS / 2];
    for _ in 0..iterations {
        for sum in &mut sums {
            *sum = _mm256_maddubs_epi16(*sum, activations);
        }
    }
    black_box(sums);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_of_codes_are_at_least_as_fast_as_of_floats() {
        let (floats, codes) = arithmetic(1);
        assert!(floats > 1e8, "{floats}");
        assert!(codes >= floats, "{codes} {floats}");
    }

    #[test]
    fn streams_read_every_word_once() {
        let mut words = vec![0u64; STREAMS * LINE * 9];
        for at in 0..words.len() {
            words[at] = 5;
            assert_eq!(read_streams(&words), 5, "word {at}");
            words[at] = 0;
        }
    }

    #[test]
    fn every_loop_of_byte_dots_that_this_machine_has_runs() {
        for isa in Isa::available() {
            if let Some((products, work)) = byte_dots(isa) {
                assert!(products.is_multiple_of(32), "whole vectors of bytes");
                work(10);
            }
        }
    }
}
