"""What SGLang's releases draft by: the choices of --speculative-algorithm (server_args.py) in the wheels of 0.4.1 to 0.5.23.

Post-releases count as their release, and have what comes after it: 0.4.1 has no such option, and EAGLE started on 0.4.1.post4
(sgl-project/sglang#2777); 0.4.3 has no NEXTN, 0.4.3.post2 has (#3956); so may 0.4.4.post2 have EAGLE3.
"""

from __future__ import annotations

from kvplan.engines.common.methods import Drafting, Way, Words

DRAFTING = Drafting(
    ways=(
        Way("eagle", "0.4.1"),
        Way("mtp nextn", "0.4.3"),
        Way("eagle3", "0.4.4"),
        Way("standalone draft_model", "0.5.2"),
        Way("ngram", "0.5.3"),
        Way("dflash", "0.5.11"),
        Way("dspark", "0.5.16"),
    ),
    words=(
        Words("unrecognized arguments: --speculative-algorithm", "server_args.py", before="0.4.1"),
        Words("argument --speculative-algorithm: invalid choice: '{method}'", "server_args.py"),
    ),
    spelled=(("mtp", "NEXTN"), ("nextn", "NEXTN"), ("eagle3", "EAGLE3"), ("standalone", "STANDALONE"), ("draft_model", "STANDALONE"),
             ("ngram", "NGRAM"), ("dflash", "DFLASH"), ("dspark", "DSPARK")),
)  # fmt: skip
