//===- RTStreams.td - Order between streams ----------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// docs/streams.md says what streams there are and what is proved of them.
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_RT_RTSTREAMS
#define DIALECTS_RT_RTSTREAMS

include "dialects/rt/RTBase.td"

def RT_RecordOp : RT_Op<"record", [HasParent<"FuncOp">]> {
  let summary = "an event: the current end of a stream";
  let description = [{
    ```mlir
    rt.matmul %a, %b to %x …
    %made = rt.record on compute
    rt.wait %made on tp
    rt.collective all_reduce by sum %x to %x over 2 stride 1 on tp : …
    %summed = rt.record on tp
    rt.matmul %a, %c to %y …
    rt.wait %summed on compute
    ```
    A function's first op runs after what its caller had queued on the compute stream, and what the caller queues there next runs after the function's compute stream. Events are values: one is recorded once, and before it is waited for.
  }];
  let arguments = (ins RT_Stream:$stream);
  let results = (outs RT_EventType:$event);
  let builders = [OpBuilder<(ins "::dt::rt::Stream":$stream), [{ build($_builder, $_state, EventType::get($_builder.getContext()), stream); }]>];
  let assemblyFormat = "`on` $stream attr-dict";
}
def RT_WaitOp : RT_Op<"wait", [HasParent<"FuncOp">]> {
  let summary = "later ops of the stream run after the event";
  let arguments = (ins RT_EventType:$event, RT_Stream:$stream);
  let hasVerifier = 1;
  let assemblyFormat = "$event `on` $stream attr-dict";
}

#endif // DIALECTS_RT_RTSTREAMS
