"""Losses and optimizers of PyTorch in gnnc's language."""

import torch

from ..errors import InputError
from .writer import number

LOSSES = ("cross_entropy", "bce_with_logits", "mse", "mae", "huber")


def listed(values):
    return "[" + ", ".join(number(value) for value in values.detach().cpu().flatten()) + "]"


def loss_text(loss, logits, graph, ends_in_log_softmax):
    """The loss statement of a model."""
    kind = graph._native.label_kind
    if loss is None and kind == "numbers":
        raise InputError(
            'the labels of the graph are numbers; say what they are: loss="mse" (or "mae"), or loss="bce_with_logits"'
        )
    name, words = of_torch(loss, ends_in_log_softmax)
    if ends_in_log_softmax and name != "cross_entropy":
        raise InputError(f"`forward` ends in log_softmax, which the loss `{name}` does not take; leave it out")
    return f"loss {name}({', '.join([logits, 'labels', 'on = train', *words])})"


def of_torch(loss, ends_in_log_softmax):
    """The name and the arguments of a loss."""
    nn = torch.nn
    if loss is None or isinstance(loss, str):
        name = loss or "cross_entropy"
        if name not in LOSSES:
            raise InputError(f"found the loss `{name}`, expected one of {', '.join(LOSSES)}, or a loss of PyTorch")
        return name, []
    if getattr(loss, "reduction", "mean") != "mean":
        raise InputError(f"found a loss with reduction={loss.reduction!r}, expected the mean")
    if isinstance(loss, nn.NLLLoss) and ends_in_log_softmax and loss.weight is None:
        return "cross_entropy", []
    if isinstance(loss, nn.CrossEntropyLoss):
        words = [f"smoothing = {number(loss.label_smoothing)}"] if loss.label_smoothing else []
        return "cross_entropy", words + ([f"weights = {listed(loss.weight)}"] if loss.weight is not None else [])
    if isinstance(loss, nn.BCEWithLogitsLoss) and loss.weight is None:
        return "bce_with_logits", [f"weights = {listed(loss.pos_weight)}"] if loss.pos_weight is not None else []
    if isinstance(loss, nn.HuberLoss):
        return "huber", [f"delta = {number(loss.delta)}"]
    for kind, name in ((nn.MSELoss, "mse"), (nn.L1Loss, "mae")):
        if isinstance(loss, kind):
            return name, []
    raise InputError(
        f"the loss {type(loss).__name__} has no equal; expected one of {', '.join(LOSSES)} or their modules of PyTorch"
    )


def group_of(optimizer):
    """What all groups of an optimizer have alike."""
    groups = optimizer.param_groups
    ignored = {
        "params",
        "weight_decay",
        "foreach",
        "fused",
        "capturable",
        "differentiable",
        "decoupled_weight_decay",
        "initial_lr",
    }
    for key in groups[0].keys() - ignored:
        if any(group[key] != groups[0][key] for group in groups):
            raise InputError(f"groups of the optimizer differ in `{key}`, expected only weight_decay to differ")
    return groups[0]


def optimizer_text(module, optimizer):
    """The lines of a `train` block."""
    if optimizer is None:
        return ["optimizer = adam(lr = 0.01)"]
    if isinstance(optimizer, str):
        return [f"optimizer = {optimizer}"]
    group, kind = group_of(optimizer), type(optimizer).__name__
    lr = f"lr = {number(group['lr'])}"

    def refuse(*keys):
        for key in keys:
            if group.get(key):
                raise InputError(f"{kind} with {key}={group[key]} has no equal; leave it out")

    if kind in ("Adam", "AdamW"):
        refuse("amsgrad", "maximize")
        one, two = group["betas"]
        text = f"{kind.lower()}({lr}, beta1 = {number(one)}, beta2 = {number(two)}, eps = {number(group['eps'])})"
    elif kind == "SGD":
        refuse("nesterov", "dampening", "maximize")
        text = f"sgd({lr}, momentum = {number(group['momentum'])})"
    elif kind == "Adagrad":
        refuse("lr_decay", "initial_accumulator_value", "maximize")
        text = f"adagrad({lr}, eps = {number(group['eps'])})"
    else:
        raise InputError(f"the optimizer {kind} has no equal; expected Adam, AdamW, SGD or Adagrad")
    lines = [f"optimizer = {text}"]
    same = {one["weight_decay"] for one in optimizer.param_groups}
    if len(same) == 1 and same != {0}:
        lines.append(f"weight_decay = {number(same.pop())}")
    missing = {id(p) for p in module.parameters() if p.requires_grad} - {
        id(p) for g in optimizer.param_groups for p in g["params"]
    }
    if missing:
        raise InputError(f"the optimizer lacks {len(missing)} parameters of the module, which gnnc would train")
    return lines


def decays(module, optimizer):
    """The weight decay of a parameter, if groups of the optimizer differ in it."""
    groups = getattr(optimizer, "param_groups", [])
    if len({group["weight_decay"] for group in groups}) < 2:
        return lambda tensor: None
    known = {id(tensor): group["weight_decay"] for group in groups for tensor in group["params"]}
    return lambda tensor: known.get(id(tensor))
