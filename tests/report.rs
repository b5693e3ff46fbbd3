//! Tables, exports and the page, on synthetic results.

mod record_support;

use moebius::analyse::{CompareOptions, GateOptions, bind, choose, compare, gate};
use moebius::kernel::Scheme;
use moebius::record::*;
use moebius::report::*;
use moebius::shape::Stage;
use record_support::*;

/// Three kernels of two schemes at four batches: a clear winner, a tie, a coarser but faster scheme, and every way of
/// not being timed.
fn sweep() -> Results {
    let mut rows = Vec::new();
    for (i, batch) in [1u32, 8, 64, 512].into_iter().enumerate() {
        let case = || case(Stage::Gemm1, batch);
        let base = [9_000.0, 40_000.0, 130_000.0, 190_000.0][i];
        let seed = 10 * i as u64;
        let a16 = |family: &str, configuration: &str, factor: f64, seed: u64| {
            row(case(), family, Scheme::Nvfp4W4a16, configuration, Some(time(base * factor, 0.004, seed)))
        };
        rows.push(a16("native", "16x8-k512", 1.0, seed));
        rows.push(a16("marlin", "m64n128", [1.41, 1.0, 1.18, 1.22][i], seed + 1));
        let mut host = a16("triton", "64x64x64", 0.8, seed + 2);
        host.kernel.needs_host_counts = true;
        rows.push(host);
        let cutlass = "128x32x128-pingpong-swap";
        if batch == 1 {
            let mut wrong = row(case(), "cutlass", Scheme::Nvfp4W4a4, cutlass, None);
            wrong.status = Status::Wrong;
            wrong.reason = Some("expert 3 is off by 3 %".into());
            rows.push(wrong);
        } else {
            rows.push(row(case(), "cutlass", Scheme::Nvfp4W4a4, cutlass, Some(time(base * 0.9, 0.01, seed + 3))));
        }
        let mut unsupported = row(case(), "cutlass", Scheme::Nvfp4W4a4, "256x128x128", None);
        unsupported.status = Status::Unsupported;
        unsupported.reason = Some("N 512 is no multiple of tile 768".into());
        rows.push(unsupported);
    }
    let mut results = results(rows);
    let (ceilings, device) = (results.ceilings.clone(), results.device.clone());
    results.rows.iter_mut().for_each(|row| bind(row, &ceilings, &device));
    results
}

fn options(width: usize, all: bool) -> TableOptions {
    TableOptions { width, all, colour: false }
}

#[test]
fn the_table_names_winners_and_ties() {
    insta::assert_snapshot!("winners_160", table(&sweep(), options(160, false)));
    insta::assert_snapshot!("winners_100", table(&sweep(), options(100, false)));
    insta::assert_snapshot!("winners_80", table(&sweep(), options(80, false)));
}

#[test]
fn the_long_table_lists_every_kernel() {
    insta::assert_snapshot!("all_160", table(&sweep(), options(160, true)));
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    let results = sweep();
    for width in [80, 90, 100, 120, 140, 160, 200] {
        for all in [false, true] {
            for line in table(&results, options(width, all)).lines() {
                assert!(line.chars().count() <= width, "{width} {all}: {line}");
            }
        }
    }
}

#[test]
fn colour_is_only_where_it_was_asked_for() {
    let results = sweep();
    assert!(!table(&results, options(120, false)).contains('\x1b'));
    assert!(table(&results, TableOptions { colour: true, ..options(120, false) }).contains("\x1b[1m"));
}

#[test]
fn the_page_is_small_whole_and_reaches_for_nothing() {
    let page = html(&twenty_kernels());
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
    let without_namespace = page.replace("http://www.w3.org/2000/svg", "");
    for word in ["http:", "https:", "src=", "url(", "@import", "<link rel=\"stylesheet"] {
        assert!(!without_namespace.contains(word), "{word}");
    }
    for word in [
        "NVIDIA H200",
        "native/sm90/nvfp4-w4a16/",
        "registers",
        "drift: the second half",
        "expert 3 is off",
        "4.43 TB/s",
    ] {
        assert!(page.contains(word), "{word}");
    }
    for (open, close) in [
        ("<svg ", "</svg>"),
        ("<table>", "</table>"),
        ("<section", "</section>"),
        ("<figure", "</figure>"),
        ("<details", "</details>"),
    ] {
        assert_eq!(page.matches(open).count(), page.matches(close).count(), "{open}");
    }
}

#[test]
fn names_cannot_become_mark_up() {
    let mut results = twenty_kernels();
    let evil = "<script>alert('x')</script>&\"";
    results.device.name = evil.into();
    results.rows[0].case.model = evil.into();
    results.rows[1].reason = Some(evil.into());
    results.rows[1].status = Status::Wrong;
    results.settings.insert(evil.into(), evil.into());
    let page = html(&results);
    assert!(!page.contains("<script>alert"));
    assert!(page.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp;&quot;"));
    assert!(!markdown(&results, true).contains("| <script>"));
    let svg: String = plots(&results).iter().map(|p| p.svg()).collect();
    assert!(!svg.contains("<script>"));
}

#[test]
fn pages_of_empty_and_of_strange_files_are_pages() {
    assert!(html(&results(vec![])).contains("</html>"));
    assert!(html(&one_of_each()).contains("</html>"));
    let mut untimed = one_of_each();
    untimed.rows.iter_mut().for_each(|row| row.time = None);
    assert!(html(&untimed).contains("none: "));
    assert!(plots(&untimed).is_empty());
}

#[test]
fn every_plot_is_an_svg_and_a_png_of_its_own() {
    let plots = plots(&sweep());
    let names: Vec<&str> = plots.iter().map(|p| p.name.as_str()).collect();
    insta::assert_snapshot!("plot_names", names.join("\n"));
    for plot in &plots {
        let svg = plot.svg();
        assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>"), "{}", plot.name);
        let png = plot.png().unwrap();
        assert!(png.starts_with(b"\x89PNG\r\n"), "{}", plot.name);
    }
    insta::assert_snapshot!("time_svg", plots[1].svg().replace("><", ">\n<"));
}

#[test]
fn csv_has_a_line_for_each_row() {
    let results = sweep();
    let text = csv(&results).unwrap();
    assert_eq!(text.lines().count(), results.rows.len() + 1);
    insta::assert_snapshot!("csv", text.lines().take(6).collect::<Vec<_>>().join("\n"));
}

#[test]
fn markdown_tables() {
    insta::assert_snapshot!("markdown", markdown(&sweep(), false));
}

#[test]
fn comparisons_gates_and_choices_as_text_and_markdown() {
    let before = sweep();
    let mut after = sweep();
    for row in after.rows.iter_mut().filter(|r| r.case.batch == 64 && r.kernel.id.family() == "native") {
        row.time = row.time.as_ref().map(|t| time(t.median_ns * 1.2, 0.004, 77));
    }
    let wrong = after.rows.iter_mut().find(|r| r.case.batch == 512 && r.kernel.id.family() == "marlin").unwrap();
    (wrong.status, wrong.reason, wrong.time) = (Status::Wrong, Some("NaN in row 3".into()), None);
    after.rows.remove(0);
    let comparison = compare(&before, &after, &CompareOptions::default()).unwrap();
    insta::assert_snapshot!("comparison_200", comparison_text(&comparison, 200, false));
    insta::assert_snapshot!("comparison_md", comparison_markdown(&comparison, true));
    let gate = gate(&comparison, GateOptions::default());
    insta::assert_snapshot!("gate_160", gate_text(&gate, 160));
    insta::assert_snapshot!("gate_md", gate_markdown(&gate));
    let choices = choose(&before);
    insta::assert_snapshot!("choices_160", choices_text(&choices, 160));
    insta::assert_snapshot!("choices_md", choices_markdown(&choices));
}
