#!/usr/bin/env escript
%% Processes, binaries and tables. ERL_FLAGS="+Mea min" sends the allocations of the emulator to malloc.
-mode(compile).

worker(Parent, N) ->
    Blocks = [binary:copy(<<(I rem 256)>>, (I * N) rem 3000) || I <- lists:seq(1, 2000)],
    Parent ! {N, erlang:crc32(Blocks)}.

main(_) ->
    Parent = self(),
    [spawn(fun() -> worker(Parent, N) end) || N <- lists:seq(1, 50)],
    Sums = [receive {N, Sum} -> Sum end || N <- lists:seq(1, 50)],
    io:format("processes ~w~n", [erlang:crc32(term_to_binary(Sums))]),
    Table = ets:new(table, [ordered_set]),
    [ets:insert(Table, {(I * 7919) rem 50021, lists:duplicate(I rem 20, I)}) || I <- lists:seq(1, 100000)],
    io:format("ets ~w ~w~n", [ets:info(Table, size), erlang:phash2(ets:tab2list(Table))]),
    ets:delete(Table),
    Text = lists:foldl(fun(I, Acc) -> <<Acc/binary, (integer_to_binary(I))/binary>> end, <<>>,
                       lists:seq(1, 100000)),
    io:format("binary ~w ~w~n", [byte_size(Text), erlang:crc32(Text)]),
    Match = re:replace(Text, "(\\d)9", "<\\1>", [global, {return, binary}]),
    io:format("regex ~w ~w~n", [byte_size(Match), erlang:crc32(zlib:compress(Match))]).
