# A program that can be replaced while its pod runs: it is copied to a volume at /live and started from there, and anew when
# /live/again is there as it ends. Without that file its end is the container's, so crashes are seen.
ARG IMAGE
FROM $IMAGE AS plain
FROM busybox:1.36
ARG PROGRAM
ENV PROGRAM=$PROGRAM
# Whatever the image that is shipped holds.
COPY --from=plain / /
USER 65532:65532
ENTRYPOINT ["sh", "-c", "trap 'kill $p; wait $p; exit' TERM; cp /$PROGRAM /live/ && while :; do /live/$PROGRAM \"$@\" & p=$!; wait $p; s=$?; [ -e /live/again ] || exit $s; rm /live/again; done", "sh"]
