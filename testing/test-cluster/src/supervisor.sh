# Runs the programs of one cluster and ends them all, then removes the cluster's directory, on command or when the
# process that holds the other end of its standard input is gone. Usage: sh -c SCRIPT supervisor run|clean DIRECTORY
umask 077
mode=$1
dir=$2

# The start time of a process, nothing once it has ended: with it a pid is distinguished from its successor. While a thread of
# it still ends it has not, and holds its ports, though its first thread is a zombie.
stamp() {
    { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 0
    set -- ${stat##*) }
    [ "$1" = Z ] && [ "${18}" -le 1 ] || echo "${20}"
}

record() { # pid file
    echo "$1 $(stamp "$1")" >"$2.new" && mv "$2.new" "$2"
}

running() { # file
    { read -r pid started <"$1"; } 2>/dev/null && [ -n "$started" ] && [ "$(stamp "$pid")" = "$started" ]
}

finish() {
    trap '' TERM
    for file in pids/*; do
        if running "$file"; then kill -KILL "$pid"; fi
    done
    for file in pids/*; do
        while running "$file"; do sleep 0.01; done
    done
    cd / && rm -rf "$dir"
}

if [ "$mode" = clean ]; then
    cd "$dir" && finish
    exit
fi

mkdir "$dir" && cd "$dir" && mkdir cmd logs pids || exit 1
exec 2>logs/supervisor.log
trap '' HUP INT
trap 'exit 0' TERM
trap finish EXIT
record $$ supervisor

while read -r verb name signal; do
    case $verb in
    start)
        sh "cmd/$name" >>"logs/$name.log" 2>&1 </dev/null &
        record $! "pids/$name"
        ;;
    stop)
        if running "pids/$name"; then kill "-$signal" "$pid"; fi
        ;;
    detach)
        mkfifo control.new && exec <>control.new && mv control.new control
        ;;
    end)
        exit 0
        ;;
    esac
done
