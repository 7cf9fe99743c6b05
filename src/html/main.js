// Puts the page together from its data.

function planPage(data) {
  const { plan, pictured } = data;
  const best = plan.candidates[plan.chosen ?? 0];
  const title = `${data.model} on ${data.graph.name}: ${best ? best.name : "no candidate"}`;
  const about = `Plan for ${clusterLine(plan.cluster)}; by ${plan.objective}. ${graphLine(data.graph)}.`;
  heading(
    title,
    about,
    best
      ? [
          [
            "Epoch",
            seconds(best.epoch_seconds),
            `between ${seconds(best.range.low)} and ${seconds(best.range.high)}`,
            full(best.epoch_seconds, "seconds"),
          ],
          ["Evaluation", seconds(best.eval_seconds), "one of them", full(best.eval_seconds, "seconds")],
          [
            "Computing",
            seconds(best.compute_seconds),
            `${UNITS.share.short(best.compute_seconds / best.epoch_seconds)} of the epoch`,
            full(best.compute_seconds, "seconds"),
          ],
          ["Sent in an epoch", bytes(best.bytes), "all ranks together", full(best.bytes, "bytes")],
          memoryTile(best, plan.cluster),
          best.to_target?.seconds && ["To the target", `from ${seconds(best.to_target.seconds.low)}`, toTarget(best)],
          best.host && ["On hosts", bytes(best.host.memory), "on the node that holds most", full(best.host.memory, "bytes")],
          ["Basis", best.basis, "least certain of the numbers"],
        ]
      : [],
  );
  if (plan.chosen === null || plan.chosen === undefined) {
    $("content").append(
      h(
        "p",
        { class: "note" },
        best
          ? `Nothing is chosen. The pictures are of the first candidate: ${best.reason}.`
          : "No candidate is possible; see below why.",
      ),
    );
  } else {
    $("content").append(h("p", { class: "about", style: "margin-top: 14px" }, `Why: ${best.reason}.`));
  }
  rankingSection(plan);
  if (pictured) timelineSection(pictured.timeline, null);
  if (best) breakdownSection(best, pictured?.timeline);
  if (pictured) {
    memorySection(pictured.memory);
    sentSection(pictured.sent, null);
  }
  graphSection(data.graph, pictured);
  rewritesSection(data.rewrites);
  rejectedSection(plan);
}

const data = JSON.parse($("data").textContent);
({ plan: planPage, train: runPage, sweep: sweepPage })[data.command](data);
leftOutSection(data);
$("footer").append(
  h(
    "p",
    {},
    `Written by gnnc ${data.gnnc} (gnnc ${data.command} --html). Times of plans are predictions. The page's source has its data, in the element "data".`,
  ),
);
