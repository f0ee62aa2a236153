% Facts that are asserted and retracted, atoms, strings and big numbers.
:- initialization(main).
:- dynamic fact/3.

load(Round, N) :-
    forall(between(1, N, I),
           ( K is (I * 7919 + Round) mod 5003,
             format(atom(A), "atom~d_~d", [Round, K]),
             format(string(S), "~w-~d", [A, I]),
             assertz(fact(K, A, S)) )).

round(Round) :-
    load(Round, 60000),
    aggregate_all(count, fact(17, _, _), Seventeen),
    findall(A-S, fact(_, A, S), Pairs),
    keysort(Pairs, Sorted),
    last(Sorted, Last),
    F is (3 ** (4000 + Round)) mod (10 ** 20),
    format("~w ~w ~w~n", [Seventeen, Last, F]),
    retractall(fact(_, _, _)),
    garbage_collect_atoms.

main :-
    forall(between(1, 8, Round), round(Round)),
    halt.
