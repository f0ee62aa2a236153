# Tests that set options while they run, or count what slow paths do: no helper thread in between (HAKMEM_BACKGROUND=0).
set(UNITS_ALONE class_stats room should_move mappings units spans huge_blocks huge_moved lean_keeps_little early_huge_pages huge_page_advice long_runs_assembled warm_pool
    holes_in_slabs load_comes_back beats growth_purges refill_before_new_pages remote_batches sent_and_taken blocks_in_order homes homes_blocks homes_of_a_quota homes_of_nodes
    short_lock_holds nodes)
