//! Cache hits for the images of a session that goes to a model, and the cost of a list with them.

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use garth_agent::media::Hydrator;
use garth_agent::session::{Append, Create, Draft, Format, PackOptions, Role, SessionKey, Sessions};
use serde_json::json;

use super::content::text;
use crate::figures::Figures;
use crate::size::Size;

/// Calls of a model, and the interval between messages with an image.
const CALLS: usize = 200;
const SHOWN: usize = 5;
/// Size of an image, in bytes.
const PICTURE: usize = 300 << 10;
/// Token budget of a pack, sufficient for all messages.
const BUDGET: u64 = 200_000;

fn message(n: usize) -> Result<Draft> {
    if !n.is_multiple_of(SHOWN) {
        return Ok(Draft::user(format!("question {n}")));
    }
    let bytes: Vec<u8> = (n as u64..).flat_map(text).take(PICTURE).collect();
    let image = json!({"type": "image", "mime_type": "image/png", "data": STANDARD.encode(bytes)});
    Ok(Draft::message(Role::User, &json!([{"type": "text", "text": format!("question {n}")}, image])))
}

pub(crate) async fn pictures(folder: &Path, size: Size) -> Result<Figures> {
    let data = garth::builder().open(folder)?;
    data.create_account("pictures").await?;
    let account = data.account("pictures").await?;
    let sessions = Sessions::new(&*account, "ann", "coder")?;
    let key: SessionKey = "agent:coder:main".parse()?;
    sessions.create(&Create::new("work").key(key)).await?;
    let (hydrator, mut options, mut figures) =
        (Hydrator::default(), PackOptions::default(), Figures::default());
    options.budget = Some(BUDGET);
    let calls = size.of(CALLS, 20);
    for n in 0..calls {
        sessions.append("work", &Append::messages([message(n)?])).await?;
        let packed = sessions.pack("work", &options).await?;
        sessions.hydrated(&packed, Format::OpenAi, &hydrator, "pictures").await?;
        sessions.append("work", &Append::messages([Draft::assistant(format!("answer {n}"))])).await?;
    }
    let (hits, misses) = hydrator.counts();
    ensure!(misses == calls.div_ceil(SHOWN) as u64, "each picture is read once");
    figures.add("hits", hits as f64 / (hits + misses) as f64);
    figures.add("held", hydrator.held() as f64);
    let packed = sessions.pack("work", &options).await?;
    let cold = Hydrator::default();
    for (name, hydrator) in [("warm", &hydrator), ("cold", &cold)] {
        let start = Instant::now();
        sessions.hydrated(&packed, Format::OpenAi, hydrator, "pictures").await?;
        figures.time(name, start.elapsed(), 1);
    }
    Ok(figures)
}
