printf 'a\nb\nc\n' | sort | tee copy | wc -l
sed -n 2p < copy
mkfifo pipe && { echo "from a fifo" > pipe & } && cat pipe
(exit 7) & wait $! || echo "job $?"
