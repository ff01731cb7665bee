//! Recurrent networks: cells, and stacked layers of them over sequences, made of products and gates as PyTorch makes them on
//! the CPU. Single-precision LSTMs go through a layer with a node of its own (`mkldnn_rnn_layer`).

mod cell;
mod layer;

use tensor_core::{DType, DeviceType, MemoryFormat, Result, bail, check};

use crate::{Tensor, ops};
use cell::{Cell, State, Weights};
use layer::{Network, Sequence};

fn check_input(input: &Tensor, size: i64) -> Result<()> {
    let got = input.size(1)?;
    check!(got == size, "input has inconsistent input_size: got {got} expected {size}");
    Ok(())
}

fn check_hidden(input: &Tensor, hidden: &Tensor, size: i64, label: usize) -> Result<()> {
    let (batch, got) = (input.size(0)?, hidden.size(0)?);
    check!(batch == got, "Input batch size {batch} doesn't match hidden{label} batch size {got}");
    let got = hidden.size(1)?;
    check!(got == size, "hidden{label} has inconsistent hidden_size: got {got}, expected {size}");
    Ok(())
}

/// One step of a cell, from its input.
fn one(
    cell: Cell,
    input: &Tensor,
    hx: &[&Tensor],
    [w_ih, w_hh]: [&Tensor; 2],
    [b_ih, b_hh]: [Option<&Tensor>; 2],
) -> Result<State> {
    check_input(input, w_ih.size(1)?)?;
    for (label, hidden) in hx.iter().enumerate() {
        check_hidden(input, hidden, w_hh.size(1)?, label)?;
    }
    let [hidden, cells @ ..] = hx else { bail!(Runtime, "a cell expects a hidden state") };
    let state = State { hidden: Tensor::clone(hidden), cell: cells.first().map(|x| Tensor::clone(x)) };
    let weights = Weights { input: w_ih, hidden: w_hh, input_bias: b_ih, hidden_bias: b_hh, projection: None };
    cell.step(&weights.of_input(input)?, &state, &weights)
}

macro_rules! cells {
    ($($(#[$doc:meta])* $name:ident $cell:ident;)*) => { $(
        $(#[$doc])*
        pub fn $name(
            input: &Tensor,
            hx: &Tensor,
            w_ih: &Tensor,
            w_hh: &Tensor,
            b_ih: Option<&Tensor>,
            b_hh: Option<&Tensor>,
        ) -> Result<Tensor> {
            Ok(one(Cell::$cell, input, &[hx], [w_ih, w_hh], [b_ih, b_hh])?.hidden)
        }
    )* };
}
cells! {
    /// `tanh(w_ih @ x + b_ih + w_hh @ h + b_hh)`
    rnn_tanh_cell Tanh;
    /// `relu(w_ih @ x + b_ih + w_hh @ h + b_hh)`
    rnn_relu_cell Relu;
    /// A step of a gated recurrent unit.
    gru_cell Gru;
}

/// A step of an LSTM: its hidden and its cell state.
pub fn lstm_cell(
    input: &Tensor,
    hx: &[&Tensor],
    w_ih: &Tensor,
    w_hh: &Tensor,
    b_ih: Option<&Tensor>,
    b_hh: Option<&Tensor>,
) -> Result<(Tensor, Tensor)> {
    check!(hx.len() == 2, "lstm_cell expects two hidden states");
    pair(one(Cell::Lstm, input, hx, [w_ih, w_hh], [b_ih, b_hh])?)
}

fn pair(state: State) -> Result<(Tensor, Tensor)> {
    match state.cell {
        Some(cell) => Ok((state.hidden, cell)),
        None => bail!(Runtime, "an LSTM has a cell state"),
    }
}

/// The parameters of all layers and directions: two weights each, two biases, and a projection.
fn gather<'a>(params: &[&'a Tensor], has_biases: bool, has_projections: bool) -> Result<Vec<Weights<'a>>> {
    let each = 2 + 2 * has_biases as usize + has_projections as usize;
    check!(params.len().is_multiple_of(each), "got an incorrect number of RNN parameters");
    Ok(params
        .chunks(each)
        .map(|of| Weights {
            input: of[0],
            hidden: of[1],
            input_bias: if has_biases { Some(of[2]) } else { None },
            hidden_bias: if has_biases { Some(of[3]) } else { None },
            projection: if has_projections { Some(of[each - 1]) } else { None },
        })
        .collect())
}

fn check_devices(input: &Tensor, params: &[&Tensor], hidden: &[&Tensor]) -> Result<()> {
    let named = hidden.iter().map(|x| ("hidden", x)).chain(params.iter().map(|x| ("parameter", x)));
    for (name, x) in named {
        check!(
            input.device() == x.device(),
            "Input and {name} tensors are not at the same device, found input tensor at {} and {name} tensor at {}",
            input.device(),
            x.device()
        );
    }
    Ok(())
}

/// The row counts of packed steps: whole numbers on the CPU.
fn batch_sizes(sizes: &Tensor) -> Result<Vec<i64>> {
    check!(
        sizes.device().kind() == DeviceType::Cpu && sizes.dtype() == DType::I64,
        "batch_sizes tensor should be on CPU and of type int64"
    );
    ops::contiguous(sizes, MemoryFormat::Contiguous)?.to_vec()
}

fn stacked(parts: &[Tensor]) -> Result<Tensor> {
    ops::stack(&parts.iter().collect::<Vec<_>>(), 0)
}

/// Runs a network of one state; the outputs, and the last states (layers x directions, batch, features).
fn plain(network: &Network, x: Sequence, hx: &Tensor, params: &[&Tensor], biases: bool) -> Result<(Tensor, Tensor)> {
    check_devices(&x.data, params, &[hx])?;
    let weights = gather(params, biases, false)?;
    let states: Vec<State> = ops::unbind_int(hx, 0)?.into_iter().map(|hidden| State { hidden, cell: None }).collect();
    let (output, last) = network.run(x, &states, &weights)?;
    let last: Vec<Tensor> = last.into_iter().map(|state| state.hidden).collect();
    Ok((output, stacked(&last)?))
}

macro_rules! networks {
    ($($(#[$doc:meta])* $input:ident $data:ident $cell:ident;)*) => { $(
        $(#[$doc])*
        #[allow(clippy::too_many_arguments)]
        pub fn $input(
            input: &Tensor,
            hx: &Tensor,
            params: &[&Tensor],
            has_biases: bool,
            num_layers: i64,
            dropout: f64,
            train: bool,
            bidirectional: bool,
            batch_first: bool,
        ) -> Result<(Tensor, Tensor)> {
            let network = Network { cell: Cell::$cell, layers: num_layers, dropout, train, bidirectional };
            let data = if batch_first { ops::transpose_int(input, 0, 1)? } else { input.clone() };
            let (output, last) = plain(&network, Sequence { data, packed: None }, hx, params, has_biases)?;
            if batch_first {
                ops::transpose_(&output, 0, 1)?;
            }
            Ok((output, last))
        }

        $(#[$doc])*
        /// Over packed sequences.
        #[allow(clippy::too_many_arguments)]
        pub fn $data(
            data: &Tensor,
            sizes: &Tensor,
            hx: &Tensor,
            params: &[&Tensor],
            has_biases: bool,
            num_layers: i64,
            dropout: f64,
            train: bool,
            bidirectional: bool,
        ) -> Result<(Tensor, Tensor)> {
            let network = Network { cell: Cell::$cell, layers: num_layers, dropout, train, bidirectional };
            let x = Sequence { data: data.clone(), packed: Some(batch_sizes(sizes)?) };
            plain(&network, x, hx, params, has_biases)
        }
    )* };
}
networks! {
    /// A network of tanh cells.
    rnn_tanh_input rnn_tanh_data Tanh;
    /// A network of relu cells.
    rnn_relu_input rnn_relu_data Relu;
    /// A network of gated recurrent units.
    gru_input gru_data Gru;
}

/// Runs an LSTM; the outputs, and the last hidden and cell states.
fn long(
    network: &Network,
    x: Sequence,
    hx: &[&Tensor],
    params: &[&Tensor],
    has_biases: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    check_devices(&x.data, params, hx)?;
    let weights = gather(params, has_biases, projected(hx)?)?;
    let (hidden, cells) = (ops::unbind_int(hx[0], 0)?, ops::unbind_int(hx[1], 0)?);
    check!(hidden.len() == cells.len(), "lstm expects as many hidden as cell states");
    let states: Vec<State> =
        hidden.into_iter().zip(cells).map(|(hidden, cell)| State { hidden, cell: Some(cell) }).collect();
    let (output, last) = network.run(x, &states, &weights)?;
    let (mut hidden, mut cells) = (Vec::new(), Vec::new());
    for state in last {
        let (h, c) = pair(state)?;
        hidden.push(h);
        cells.push(c);
    }
    Ok((output, stacked(&hidden)?, stacked(&cells)?))
}

/// True if hidden states are projections of the cell states: their widths differ.
fn projected(hx: &[&Tensor]) -> Result<bool> {
    Ok(hx[0].size(2)? != hx[1].size(2)?)
}

/// An LSTM over sequences of equal lengths.
#[allow(clippy::too_many_arguments)]
pub fn lstm_input(
    input: &Tensor,
    hx: &[&Tensor],
    params: &[&Tensor],
    has_biases: bool,
    num_layers: i64,
    dropout: f64,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    check!(hx.len() == 2, "lstm expects two hidden states");
    let network = Network { cell: Cell::Lstm, layers: num_layers, dropout, train, bidirectional };
    let one_node = input.dtype() == DType::F32
        && input.numel() != 0
        && input.device().kind() == DeviceType::Cpu
        && !projected(hx)?
        && params.iter().chain(hx).all(|x| x.device().kind() == DeviceType::Cpu);
    let data = if batch_first { ops::transpose_int(input, 0, 1)? } else { input.clone() };
    if one_node {
        let (output, hidden, cell) = layered(&network, data, hx, params, has_biases, batch_first)?;
        let output = if batch_first { ops::transpose_int(&output, 0, 1)? } else { output };
        return Ok((output, hidden, cell));
    }
    let (output, hidden, cell) = long(&network, Sequence { data, packed: None }, hx, params, has_biases)?;
    let output = if batch_first { ops::transpose_int(&output, 0, 1)? } else { output };
    Ok((output, hidden, cell))
}

/// An LSTM over packed sequences.
#[allow(clippy::too_many_arguments)]
pub fn lstm_data(
    data: &Tensor,
    sizes: &Tensor,
    hx: &[&Tensor],
    params: &[&Tensor],
    has_biases: bool,
    num_layers: i64,
    dropout: f64,
    train: bool,
    bidirectional: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    check!(hx.len() == 2, "lstm expects two hidden states");
    let network = Network { cell: Cell::Lstm, layers: num_layers, dropout, train, bidirectional };
    let x = Sequence { data: data.clone(), packed: Some(batch_sizes(sizes)?) };
    long(&network, x, hx, params, has_biases)
}

/// The kind of network that `mkldnn_rnn_layer` calls 2.
const LSTM: i64 = 2;

/// An LSTM whose layers have a node each.
fn layered(
    network: &Network,
    data: Tensor,
    hx: &[&Tensor],
    params: &[&Tensor],
    biases: bool,
    batch_first: bool,
) -> Result<(Tensor, Tensor, Tensor)> {
    check_devices(&data, params, hx)?;
    let weights = gather(params, biases, false)?;
    let directions = if network.bidirectional { 2 } else { 1 };
    let wanted = network.layers.checked_mul(directions as i64);
    check!(
        wanted == Some(weights.len() as i64) && wanted.is_some_and(|n| n <= hx[0].sizes()[0] && n <= hx[1].sizes()[0]),
        "Expected more weights in stacked_rnn"
    );
    let data = ops::contiguous(&data, MemoryFormat::Contiguous)?;
    let first = ops::contiguous(hx[0], MemoryFormat::Contiguous)?;
    let first_cells = ops::contiguous(hx[1], MemoryFormat::Contiguous)?;
    let size = first.size(2)?;
    let (mut x, mut hidden, mut cells) = (data, Vec::new(), Vec::new());
    for layer in 0..network.layers as usize {
        let mut outputs = Vec::with_capacity(directions);
        for direction in 0..directions {
            let at = layer * directions + direction;
            let of = &weights[at];
            let zeros = |like: &Tensor| ops::zeros(like.sizes(), Some(like.dtype()), None, Some(like.device()), None);
            let (b_ih, b_hh) = match (of.input_bias, of.hidden_bias) {
                (Some(a), Some(b)) => (a.clone(), b.clone()),
                _ => (zeros(of.input)?, zeros(of.hidden)?),
            };
            let (output, h, c, _) = ops::mkldnn_rnn_layer(
                &x,
                of.input,
                of.hidden,
                &b_ih,
                &b_hh,
                &ops::select_int(&first, 0, at as i64)?,
                &ops::select_int(&first_cells, 0, at as i64)?,
                direction > 0,
                &[],
                LSTM,
                size,
                network.layers,
                biases,
                network.bidirectional,
                batch_first,
                network.train,
            )?;
            outputs.push(output);
            hidden.push(h);
            cells.push(c);
        }
        x = if directions > 1 { ops::cat(&outputs.iter().collect::<Vec<_>>(), -1)? } else { outputs.swap_remove(0) };
        if network.dropout != 0.0 && network.train && (layer as i64) < network.layers - 1 {
            x = ops::dropout(&x, network.dropout, true)?;
        }
    }
    Ok((x, stacked(&hidden)?, stacked(&cells)?))
}

/// One direction of an LSTM's layer: the outputs, the last hidden and cell states, and an empty tensor where other
/// implementations keep what their backward pass needs.
#[allow(clippy::too_many_arguments)]
pub fn mkldnn_rnn_layer(
    input: &Tensor,
    weight0: &Tensor,
    weight1: &Tensor,
    weight2: &Tensor,
    weight3: &Tensor,
    hx_: &Tensor,
    cx_: &Tensor,
    reverse: bool,
    batch_sizes: &[i64],
    mode: i64,
    _hidden_size: i64,
    _num_layers: i64,
    has_biases: bool,
    _bidirectional: bool,
    _batch_first: bool,
    _train: bool,
) -> Result<(Tensor, Tensor, Tensor, Tensor)> {
    check!(batch_sizes.is_empty(), "mkldnn_rnn doesn't support packed input");
    check!(mode == LSTM, "mkldnn_rnn_layer: only LSTMs (mode 2) are supported, but got mode {mode}");
    let (bias, hidden_bias) = if has_biases { (Some(weight2), Some(weight3)) } else { (None, None) };
    let weights = Weights { input: weight0, hidden: weight1, input_bias: bias, hidden_bias, projection: None };
    let network = Network { cell: Cell::Lstm, layers: 1, dropout: 0.0, train: false, bidirectional: false };
    let state = State { hidden: hx_.clone(), cell: Some(cx_.clone()) };
    let data = if reverse { ops::flip(input, &[0])? } else { input.clone() };
    let (output, last) = network.run(Sequence { data, packed: None }, &[state], &[weights])?;
    let output = if reverse { ops::flip(&output, &[0])? } else { output };
    let Some(state) = last.into_iter().next() else { bail!(Runtime, "a layer has a last state") };
    let (hidden, cell) = pair(state)?;
    let workspace = ops::empty_memory_format(&[0], Some(DType::U8), None, Some(input.device()), None, None)?;
    Ok((output, hidden, cell, workspace))
}
