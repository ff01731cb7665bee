//! Whole training steps, and GPT-2 small forward and decoding.

use tensor::nn::functional as F;
use tensor::ops;
use tensor::optim::{Adam, AdamOptions, AdamW, AdamWOptions};
use tensor::prelude::*;

use super::{Config, Job, Workload, integers, unrecorded};

/// GPT-2 with 124 million parameters.
pub const GPT2_SMALL: Config = Config { layers: 12, heads: 12, width: 768, vocab: 50257, ctx: 1024 };

impl Config {
    /// The shapes of the parameters, the output's weight shared with the embedding.
    pub fn shapes(&self) -> Vec<Vec<i64>> {
        let d = self.width;
        let block = [
            vec![d],
            vec![d],
            vec![3 * d, d],
            vec![3 * d],
            vec![d, d],
            vec![d],
            vec![d],
            vec![d],
            vec![4 * d, d],
            vec![4 * d],
            vec![d, 4 * d],
            vec![d],
        ];
        let blocks = std::iter::repeat_n(block, self.layers).flatten();
        let ends = [vec![self.vocab, d], vec![self.ctx, d], vec![d], vec![d]];
        ends.into_iter().chain(blocks).collect()
    }
}

pub fn job(workload: &Workload) -> Result<Option<Job>> {
    let shapes = &workload.shapes;
    match (workload.op.as_str(), workload.cfg) {
        ("mlp_train", _) => {
            let net = nn::sequential![nn::Linear::new(64, 128)?, nn::ReLU, nn::Linear::new(128, 10)?];
            classifier(net, shapes)
        }
        ("cnn_train", _) => classifier(cnn(&workload.channels, shapes[0][3])?, shapes),
        ("gpt_train" | "gpt2s_train", Some(config)) => {
            let gpt = Gpt::new(config)?;
            let (x, y) = (integers(config.vocab, &shapes[0])?, integers(config.vocab, &shapes[1])?);
            let y = y.flatten()?;
            let mut optimizer = AdamW::new(gpt.parameters(), AdamWOptions::lr(1e-4))?;
            Ok(Some(Box::new(move || {
                optimizer.zero_grad()?;
                // As in the comparison, the logits are gone when backward starts.
                let loss = {
                    let logits = gpt.forward(&x, None)?;
                    F::cross_entropy(&logits.view(&[-1, config.vocab])?, &y)?
                };
                loss.backward()?;
                optimizer.step()
            })))
        }
        ("gpt2s_fwd", Some(config)) => {
            let gpt = Gpt::new(config)?;
            let x = integers(config.vocab, &shapes[0])?;
            unrecorded(move || gpt.forward(&x, None))
        }
        ("gpt2s_decode", Some(config)) => {
            let gpt = Gpt::new(config)?;
            let tokens = workload.tokens;
            unrecorded(move || gpt.decode(tokens))
        }
        _ => Ok(None),
    }
}

/// Training steps of a network on inputs of `shapes[0]` and ten classes.
fn classifier(net: nn::Sequential, shapes: &[Vec<i64>]) -> Result<Option<Job>> {
    let (x, y) = (Tensor::randn(&shapes[0], ())?, integers(10, &shapes[1])?);
    let mut optimizer = Adam::new(net.parameters(), AdamOptions::lr(1e-3))?;
    Ok(Some(Box::new(move || {
        optimizer.zero_grad()?;
        F::cross_entropy(&net.forward(&x)?, &y)?.backward()?;
        optimizer.step()
    })))
}

/// Two convolutions, each followed by pooling, and a linear layer.
fn cnn(channels: &[i64], side: i64) -> Result<nn::Sequential> {
    let convolution =
        |i: usize| nn::Conv2d::new_opt(channels[i], channels[i + 1], 3, nn::Conv2dOptions::new().padding(1));
    let features = channels[2] * (side / 4) * (side / 4);
    Ok(nn::sequential![
        convolution(0)?,
        nn::ReLU,
        nn::MaxPool2d::new(2),
        convolution(1)?,
        nn::ReLU,
        nn::MaxPool2d::new(2),
        nn::Flatten::new(),
        nn::Linear::new(features, 10)?,
    ])
}

#[derive(Module)]
#[module(crate = "tensor::nn")]
struct Block {
    ln1: nn::LayerNorm,
    ln2: nn::LayerNorm,
    qkv: nn::Linear,
    proj: nn::Linear,
    fc: nn::Linear,
    out: nn::Linear,
    heads: i64,
}

/// Keys and values of the tokens so far, (1, heads, 64, width of a head), and how many there are.
struct Cache {
    keys: Tensor,
    values: Tensor,
}

impl Block {
    fn new(config: Config) -> Result<Self> {
        let d = config.width;
        Ok(Self {
            ln1: nn::LayerNorm::new(vec![d])?,
            ln2: nn::LayerNorm::new(vec![d])?,
            qkv: nn::Linear::new(d, 3 * d)?,
            proj: nn::Linear::new(d, d)?,
            fc: nn::Linear::new(d, 4 * d)?,
            out: nn::Linear::new(4 * d, d)?,
            heads: config.heads,
        })
    }

    fn forward(&self, x: &Tensor, cache: Option<(&Cache, i64)>) -> Result<Tensor> {
        let &[b, t, d] = x.sizes() else { tensor::bail!(Runtime, "a block takes (batch, tokens, width)") };
        let qkv = self.qkv.forward(&self.ln1.forward(x)?)?;
        let qkv = qkv.view(&[b, t, 3, self.heads, d / self.heads])?.permute(&[2, 0, 3, 1, 4])?.unbind()?;
        let (q, k, v) = (&qkv[0], &qkv[1], &qkv[2]);
        let attend =
            |k: &Tensor, v: &Tensor, causal| ops::scaled_dot_product_attention(q, k, v, None, 0.0, causal, None, false);
        let y = match cache {
            None => attend(k, v, true)?,
            Some((cache, at)) => {
                ops::copy_(&cache.keys.narrow(2, at, t)?, k, false)?;
                ops::copy_(&cache.values.narrow(2, at, t)?, v, false)?;
                attend(&cache.keys.narrow(2, 0, at + t)?, &cache.values.narrow(2, 0, at + t)?, false)?
            }
        };
        let x = (x + self.proj.forward(&y.transpose(1, 2)?.reshape(&[b, t, d])?)?)?;
        let hidden = ops::gelu(&self.fc.forward(&self.ln2.forward(&x)?)?, "tanh")?;
        &x + self.out.forward(&hidden)?
    }
}

#[derive(Module)]
#[module(crate = "tensor::nn")]
struct Gpt {
    wte: nn::Embedding,
    wpe: nn::Embedding,
    blocks: Vec<Block>,
    lnf: nn::LayerNorm,
    #[module(skip)]
    config: Config,
}

impl Gpt {
    fn new(config: Config) -> Result<Self> {
        let blocks = (0..config.layers).map(|_| Block::new(config)).collect::<Result<_>>()?;
        let gpt = Self {
            wte: nn::Embedding::new(config.vocab, config.width)?,
            wpe: nn::Embedding::new(config.ctx, config.width)?,
            blocks,
            lnf: nn::LayerNorm::new(vec![config.width])?,
            config,
        };
        for param in gpt.parameters().iter().filter(|param| param.dim() > 1) {
            nn::init::normal_(param, 0.0, 0.02)?;
        }
        Ok(gpt)
    }

    /// Logits (b, t, vocab) of tokens (b, t), which stand at `at` if there are caches.
    fn forward(&self, tokens: &Tensor, caches: Option<(&[Cache], i64)>) -> Result<Tensor> {
        let at = caches.map_or(0, |(_, at)| at);
        let mut x = (self.wte.forward(tokens)? + &self.wpe.weight.narrow(0, at, tokens.size(1)?)?)?;
        for (i, block) in self.blocks.iter().enumerate() {
            x = block.forward(&x, caches.map(|(list, at)| (&list[i], at)))?;
        }
        ops::linear(&self.lnf.forward(&x)?, &self.wte.weight, None)
    }

    /// Decodes tokens one at a time, the most likely one each, from token 0.
    fn decode(&self, tokens: i64) -> Result<Tensor> {
        let Config { heads, width, .. } = self.config;
        let empty = || Tensor::empty(&[1, heads, 64, width / heads], ());
        let cache = |_: &Block| Ok(Cache { keys: empty()?, values: empty()? });
        let caches = self.blocks.iter().map(cache).collect::<Result<Vec<_>>>()?;
        let mut token = Tensor::zeros(&[1, 1], DType::I64)?;
        for at in 0..tokens {
            token = self.forward(&token, Some((&caches, at)))?.select(1, -1)?.argmax_opt(Some(-1), true)?;
        }
        Ok(token)
    }
}
