//! Results files and published tables under mutated input, for a set time: what is accepted goes through every analysis and
//! report, and nothing panics.

#[path = "common/fuzz.rs"]
mod fuzz;
mod record_support;

use moebius::analyse::{CompareOptions, GateOptions, KnownModel, choose, compare, gate, import_csv, token_shares};
use moebius::record::{Results, parse, write_json};
use moebius::report::{TableOptions, choices_text, comparison_text, csv, gate_text, html, markdown, table};

fn one_line(sentence: &str) {
    assert!((1..1000).contains(&sentence.chars().count()) && !sentence.chars().any(char::is_control), "{sentence:?}");
}

/// Everything that a user may ask of a file that was read.
fn use_up(results: &Results) {
    table(results, TableOptions { width: 120, all: true, colour: false });
    markdown(results, true);
    html(results);
    if let Err(sentence) = csv(results) {
        one_line(&sentence);
    }
    choices_text(&choose(results), 100);
    token_shares(results, 97.0);
    match compare(results, results, &CompareOptions::default()) {
        Ok(comparison) => {
            comparison_text(&comparison, 100, true);
            gate_text(&gate(&comparison, GateOptions::default()), 100);
        }
        Err(sentence) => one_line(&sentence),
    }
}

#[test]
fn results_files() {
    let mut seed = Vec::new();
    let mut results = record_support::one_of_each();
    for time in results.rows.iter_mut().filter_map(|row| row.time.as_mut()) {
        time.samples_ns.truncate(5);
        time.rounds.truncate(5);
    }
    write_json(&mut seed, &results).expect("synthetic results are valid");
    fuzz::run("results files", &[&seed], |bytes| match parse(bytes) {
        Ok(results) => {
            use_up(&results);
            true
        }
        Err(sentence) => {
            one_line(&sentence);
            false
        }
    });
}

#[test]
fn published_tables() {
    let models =
        [KnownModel { name: "GLM-5".into(), hidden: 6144, inter: 2048, experts: 256, top_k: 8, moe_layers: 75 }];
    let seed = b"framework,version,device,kernel_source,moe_dtype,num_tokens,hidden_size,inter_size,topk,num_experts,\
        moe_tp_size,moe_ep_size,distribution,latency\n\
        A,0.5,NVIDIA RTX PRO 6000 Blackwell Server Edition,one,bfloat16,1,6144,2048,8,256,8,1,balanced,0.0415\n\
        A,0.5,NVIDIA RTX PRO 6000 Blackwell Server Edition,two,nvfp4,64,6144,2048,8,256,1,8,balanced,0.632\n";
    fuzz::run("published tables", &[seed], |bytes| match import_csv(bytes, "table.csv", &models) {
        Ok(imported) => {
            use_up(&imported.results);
            true
        }
        Err(sentence) => {
            one_line(&sentence);
            false
        }
    });
}
