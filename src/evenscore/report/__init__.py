"""How results are shown: text for terminals and figures for people. Only draws what a result already holds."""
