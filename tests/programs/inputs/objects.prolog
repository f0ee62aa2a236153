% Facts, strings, big numbers, global variables and threads.
:- initialization(main).

checksum(Text, Sum) :-
    string_codes(Text, Codes),
    foldl([C, H0, H]>>(H is (H0 * 33 + C) mod 4294967291), Codes, 5381, Sum).

:- dynamic fact/3.

load(N) :-
    forall(between(1, N, I),
           ( K is I * 7919 mod 5003,
             format(atom(A), "atom~d", [K]),
             format(string(S), "~w-~d", [A, I]),
             assertz(fact(K, A, S)) )).

work(Seed, Sum) :-
    numlist(1, 4000, Numbers),
    maplist([N, S]>>(X is N * Seed, number_string(X, S)), Numbers, Strings),
    atomics_to_string(Strings, Text),
    checksum(Text, Sum).

main :-
    load(40000),
    aggregate_all(count, fact(_, _, _), Count),
    aggregate_all(count, fact(17, _, _), Seventeen),
    format("facts ~w ~w~n", [Count, Seventeen]),
    findall(A-S, fact(_, A, S), Pairs),
    keysort(Pairs, Sorted),
    last(Sorted, Last),
    format("sort ~w~n", [Last]),
    retractall(fact(_, _, _)),
    F is 3 ** 5000,
    format(string(Text), "~d", [F]),
    checksum(Text, Big),
    format("big ~w~n", [Big]),
    concurrent_maplist(work, [1, 2, 3, 4, 5, 6], Sums),
    format("threads ~w~n", [Sums]),
    halt.
