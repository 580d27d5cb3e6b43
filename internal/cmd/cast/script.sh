# What the picture shows. Above the line of dashes: what is prepared. Below: what is typed, a line each.
cat >build.sh <<'END'
i=0
for package in rpc/mcp rpc partials tasks/store tasks tools/text tools/command tools cmd/trace cmd/doctor cmd runnel; do
	i=$((i+1))
	echo "[$i/12] compiling $package"
	sleep 0.4
done
echo "12 packages built"
END
cat >runnel.yaml <<'END'
tools:
  build:
    description: Build all packages
    command: [sh, build.sh]
    progress: '\[(\d+)/(\d+)\]'
END
runnel trust >/dev/null 2>&1
# ----
cat runnel.yaml
# call the tool from a terminal: output as it comes, a bar below it
runnel call build
# start it and leave; then look at it, as at what any host is running
id=$(runnel call build --detach)
runnel tasks list
runnel tasks tail $id -f -n 2
# what a model reads of it, if it asks for some lines only
runnel call get_task_result task_id=$id grep=tools --fallback-tools always
