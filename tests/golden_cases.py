"""The graphs of real TensorFlow, by name."""

from pathlib import Path

GOLDEN = Path(__file__).parent / "golden"
#: without control flow
CASES = (
    "i_const",
    "i_recv_dedup",
    "ii_control_and_data",
    "ii_control_edge",
    "iii_diamond",
    "iv_feed_fetch",
    "iv_feed_inner",
    "ix_partitioned_ref_mod",
    "ix_partitioned_resource_div",
    "viii_mlp_momentum_2ps",
    "viii_mlp_ref_1ps",
    "viii_mlp_ref_2ps",
    "viii_mlp_resource_1ps",
    "x_pruned",
)

CONTROL_FLOW_CASES = (
    "v_cond",
    "vi_while",
    "vi_while_invariant",
    "vi_while_three_devices",
    "vii_nested_while",
    "xi_dead_branch",
)

#: drawn by chance: conditions, loops and variables over devices of several tasks
RANDOM_CASES = (
    "xiv_random_007",
    "xiv_random_015",
    "xiv_random_017",
    "xiv_random_036",
    "xiv_random_119",
    "xiv_random_145",
    "xiv_random_155",
)
